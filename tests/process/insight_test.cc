// What the library tells: explanations, statistics, dumps, versions, warnings; and how ranks meet by other means.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/deadline.h"
#include "tests/support/command.h"
#include "tests/support/expect_ok.h"
#include "tests/support/scenario.h"
#include "tests/support/scoped_environment.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Insight : public RanksTest, public testing::WithParamInterface<RankKind> {};

gimbal_stats_t stats_of(const Communicator& communicator) {
  gimbal_stats_t stats = GIMBAL_STATS_INIT;
  expect_ok(gimbal_comm_stats(communicator.get(), &stats));
  return stats;
}

TEST_P(Insight, StatisticsCountOperationsAndBytesExactly) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    Communicator communicator(context);
    EXPECT_EQ(stats_of(communicator).operations, 0U);
    std::vector<float> values(1000, 1);
    for (int i = 0; i < 10; ++i) communicator.all_reduce(values.data(), values.data(), 1000, GIMBAL_FLOAT32, GIMBAL_MAX);
    expect_ok(gimbal_barrier(communicator.get(), nullptr));
    gimbal_request_t request = nullptr;
    expect_ok(gimbal_broadcast_start(values.data(), 10, GIMBAL_FLOAT32, 0, communicator.get(), nullptr, &request));
    expect_ok(gimbal_wait(&request));
    EXPECT_EQ(gimbal_broadcast(values.data(), 10, GIMBAL_FLOAT32, 9, communicator.get(), nullptr), GIMBAL_INVALID_ARGUMENT);
    const gimbal_stats_t stats = stats_of(communicator);
    EXPECT_EQ(stats.operations, 12U);
    EXPECT_EQ(stats.bytes, 10 * 4000U + 40U);
    EXPECT_GT(stats.host_bytes, 0U);
    gimbal_stats_t foreign = GIMBAL_STATS_INIT;
    foreign.struct_bytes = 3;
    EXPECT_EQ(gimbal_comm_stats(communicator.get(), &foreign), GIMBAL_INVALID_ARGUMENT);
  });
}

// Rank 1 does something else before every operation; the others learn whom they wait for, whatever way the operation takes.
TEST_P(Insight, RankThatIsAlwaysLateIsNamed) {
  for (const size_t count : {size_t{2}, size_t{20'000}}) {
    run_ranks(GetParam(), 3, [count](const RankContext& context) {
      Communicator communicator(context);
      std::vector<float> values(count, 1);
      for (int i = 0; i < 20; ++i) {
        // The others have entered the operation before rank 1 leaves this wait.
        const Deadline work = Deadline::after_ms(context.rank == 1 ? 10 : 0);
        while (!work.passed()) sched_yield();
        communicator.all_reduce(values.data(), values.data(), count, GIMBAL_FLOAT32, GIMBAL_MAX);
      }
      if (context.rank == 1) return;
      const gimbal_stats_t stats = stats_of(communicator);
      EXPECT_EQ(stats.last_arrived_rank, 1) << count;
      EXPECT_GT(stats.last_arrived_ns, 1'000'000U);
      EXPECT_GT(stats.wait_ns, 20'000'000U);
    });
  }
}

TEST_P(Insight, StatisticsFillAnOlderProgramsShorterStruct) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator communicator(context);
    expect_ok(gimbal_barrier(communicator.get(), nullptr));
    gimbal_stats_t stats = GIMBAL_STATS_INIT;
    stats.struct_bytes = offsetof(gimbal_stats_t, errors);
    stats.errors = 77;
    expect_ok(gimbal_comm_stats(communicator.get(), &stats));
    EXPECT_EQ(stats.operations, 1U);
    EXPECT_EQ(stats.struct_bytes, offsetof(gimbal_stats_t, errors));
    EXPECT_EQ(stats.errors, 77U) << "past the end of that struct";
  });
}

// Lines of the log at the level of warnings.
struct Warnings {
  void attach(gimbal_config_t& config) {
    config.log_context = this;
    config.log = [](void* self, int level, const char* line) {
      if (level <= 1) static_cast<Warnings*>(self)->lines.append(line).append("\n");
    };
  }
  std::string lines;  // by the caller's thread: there are no started operations here
};

TEST_P(Insight, ARankThatIsLateInMostOfAWindowIsNamedInOneLineOfOneRank) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    Warnings warnings;
    warnings.attach(config);
    Communicator communicator(config);
    // On a busy machine the others are late now and then: as many windows as it takes, and some.
    constexpr int kMostOperations = 16 * 256;
    int32_t anyone_was_told = 0;
    for (int i = 0; i < kMostOperations && anyone_was_told == 0; ++i) {
      const int64_t until_ns = monotonic_ns() + (context.rank == 1 ? 2'000'000 : 0);
      while (monotonic_ns() < until_ns) sched_yield();
      anyone_was_told = warnings.lines.empty() ? 0 : 1;
      communicator.all_reduce(&anyone_was_told, &anyone_was_told, 1, GIMBAL_INT32, GIMBAL_MAX);
    }
    if (context.rank == 0) {
      EXPECT_THAT(warnings.lines,
                  AllOf(HasSubstr("rank 1 (pid "), HasSubstr("is late: "), HasSubstr(" of the last 256 waits")));
      EXPECT_EQ(std::ranges::count(warnings.lines, '\n'), 1) << warnings.lines;
    } else {
      EXPECT_EQ(warnings.lines, "");
    }
  });
}

TEST_P(Insight, LatencyAloneMakesNobodyLate) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    Warnings warnings;
    warnings.attach(config);
    Communicator communicator(config);
    int32_t value = 1;
    for (int i = 0; i < 2'000; ++i) communicator.all_reduce(&value, &value, 1, GIMBAL_INT32, GIMBAL_MAX);
    // On a busy machine a rank may have been late indeed: by more than the latency of memory.
    EXPECT_THAT(warnings.lines, AllOf(Not(ContainsRegex("[ ,][0-9]{1,2} us each")), Not(HasSubstr(" ns each"))));
  });
}

TEST_P(Insight, MetricsAreInTheFileOfEachRankAtDestroy) {
  const std::string folder = testing::TempDir() + "gimbal-metrics-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const ScopedEnvironment to_files("GIMBAL_METRICS_FILE", folder + "/%n-%r.prom");
  run_ranks(GetParam(), 2, [&](const RankContext& context) {
    {
      Communicator communicator(context);
      for (int i = 0; i < 5; ++i) expect_ok(gimbal_barrier(communicator.get(), nullptr));
      gimbal_comm_t half = nullptr;
      expect_ok(gimbal_comm_split(communicator.get(), context.rank, 0, &half));
      expect_ok(gimbal_comm_destroy(half));
    }
    const std::string rank = std::to_string(context.rank);
    std::ifstream file(folder + "/world-" + rank + ".prom");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(text, HasSubstr("gimbal_operations_total{communicator=\"world\",rank=\"" + rank + "\"} 5\n"));
    EXPECT_TRUE(std::filesystem::exists(folder + "/world." + rank + "-0.prom")) << "a communicator of its own";
  });
  std::filesystem::remove_all(folder);
}

TEST_P(Insight, MetricsAreWrittenWhileOperationsGoOn) {
  const std::string folder = testing::TempDir() + "gimbal-period-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const ScopedEnvironment to_files("GIMBAL_METRICS_FILE", folder + "/%r.prom");
  const ScopedEnvironment often("GIMBAL_METRICS_PERIOD", "1ms");
  run_ranks(GetParam(), 2, [&](const RankContext& context) {
    Communicator communicator(context);
    const std::string path = folder + "/" + std::to_string(context.rank) + ".prom";
    const Deadline deadline = Deadline::after_ms(kTimeoutMs);
    int32_t missing = 1;
    while (missing != 0 && !deadline.passed()) {
      missing = std::filesystem::exists(path) ? 0 : 1;
      communicator.all_reduce(&missing, &missing, 1, GIMBAL_INT32, GIMBAL_MAX);
    }
    EXPECT_EQ(missing, 0);
  });
  std::filesystem::remove_all(folder);
}

TEST_P(Insight, DumpIsTheRecentOperationsAsJson) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.name = "my \"job\"";
    Communicator communicator(config);
    int32_t value = 1;
    for (int i = 0; i < 3; ++i) communicator.all_reduce(&value, &value, 1, GIMBAL_INT32, GIMBAL_MIN);
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                                       ("gimbal-dump-" + std::to_string(getpid()) + "-" + std::to_string(context.rank));
    expect_ok(gimbal_comm_dump(communicator.get(), path.c_str()));
    std::ifstream file(path);
    const nlohmann::json report = nlohmann::json::parse(file);
    EXPECT_EQ(report["communicator"], "my \"job\"");
    EXPECT_EQ(report["rank"], context.rank);
    ASSERT_EQ(report["operations"].size(), 3U);
    EXPECT_EQ(report["operations"][2]["operation"], "all_reduce #3 (count 1, int32, min)");
    EXPECT_EQ(report["operations"][2]["state"], "GIMBAL_OK");
    std::filesystem::remove(path);
    EXPECT_EQ(gimbal_comm_dump(communicator.get(), "/no/such/folder/dump"), GIMBAL_SYSTEM);
    EXPECT_EQ(gimbal_comm_dump(communicator.get(), nullptr), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(gimbal_comm_status(communicator.get()), GIMBAL_OK);
  });
}

TEST_P(Insight, StatisticsCountWhatAllToAllVSends) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator communicator(context);
    const std::array<size_t, 2> counts = {3, 3};
    const std::array<size_t, 2> displacements = {0, 3};
    std::array<float, 6> send = {};
    std::array<float, 6> recv = {};
    expect_ok(gimbal_all_to_all_v(send.data(), counts.data(), displacements.data(), recv.data(), counts.data(),
                                  displacements.data(), GIMBAL_FLOAT32, communicator.get(), nullptr));
    gimbal_request_t request = nullptr;
    expect_ok(gimbal_all_to_all_v_start(send.data(), counts.data(), displacements.data(), recv.data(), counts.data(),
                                        displacements.data(), GIMBAL_FLOAT32, communicator.get(), nullptr, &request));
    expect_ok(gimbal_wait(&request));
    EXPECT_EQ(stats_of(communicator).bytes, 2 * 24U);
  });
}

TEST_P(Insight, OneRankAloneIsRecordedAndCountedToo) {
  run_ranks(GetParam(), 1, [](const RankContext& context) {
    Communicator communicator(context);
    const size_t count = 6;
    const size_t displacement = 0;
    std::vector<float> send(count, 1);
    std::vector<float> recv(count);
    expect_ok(gimbal_all_to_all_v(send.data(), &count, &displacement, recv.data(), &count, &displacement, GIMBAL_FLOAT32,
                                  communicator.get(), nullptr));
    EXPECT_EQ(stats_of(communicator).bytes, 24U);
    const std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) / ("gimbal-dump-one-" + std::to_string(getpid()));
    expect_ok(gimbal_comm_dump(communicator.get(), path.c_str()));
    std::ifstream file(path);
    const nlohmann::json report = nlohmann::json::parse(file);
    std::filesystem::remove(path);
    ASSERT_EQ(report["operations"].size(), 1U);
    EXPECT_EQ(report["operations"][0]["state"], "GIMBAL_OK");
  });
}

TEST_P(Insight, TraceNamesTheFirstDivergenceOfRanksThatCalledDifferentThings) {
  const std::string folder = testing::TempDir() + "gimbal-trace-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const ScopedEnvironment to_files("GIMBAL_FLIGHT_RECORDER", folder + "/%r.json");
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    Communicator communicator(context);
    std::vector<float> values(200, 1);
    for (int i = 0; i < 3; ++i) communicator.all_reduce(values.data(), values.data(), 10, GIMBAL_FLOAT32, GIMBAL_SUM);
    const size_t count = context.rank == 1 ? 200 : 100;
    EXPECT_EQ(gimbal_all_reduce(values.data(), values.data(), count, GIMBAL_FLOAT32, GIMBAL_SUM, communicator.get(), nullptr),
              GIMBAL_MISMATCH);
  });
  const std::string timeline = folder + "/timeline.json";
  const CommandResult result =
      run_command({binary("gimbal-trace"), folder + "/0.json", folder + "/1.json", folder + "/2.json", "--timeline", timeline});
  EXPECT_EQ(result.status, 1) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("first divergence: #4 called with count 100 and 200\n"),
                                HasSubstr("ranks 0, 2: all_reduce #4 (count 100")));
  std::ifstream file(timeline);
  EXPECT_GE(nlohmann::json::parse(file)["traceEvents"].size(), 3 * 4U);
  std::filesystem::remove_all(folder);
}

TEST_P(Insight, ExplainSaysTheSameOnAllRanksAndCutsWhatDoesNotFit) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator communicator(context, "ring");
    char text[1024];
    for (int collective = 0; collective <= GIMBAL_ALL_TO_ALL_V; ++collective) {
      expect_ok(gimbal_explain(communicator.get(), static_cast<gimbal_collective_t>(collective), 100'000, GIMBAL_FLOAT32, text,
                               sizeof(text)));
      EXPECT_TRUE(communicator.equal_on_all_ranks(std::as_bytes(std::span(text, strlen(text))))) << text;
    }
    expect_ok(gimbal_explain(communicator.get(), GIMBAL_ALL_REDUCE, 100'000, GIMBAL_FLOAT32, text, sizeof(text)));
    EXPECT_THAT(text, AllOf(HasSubstr("ring"), HasSubstr("forced"), HasSubstr("; predicted "), HasSubstr("; next is direct")));
    char small[8];
    EXPECT_EQ(gimbal_explain(communicator.get(), GIMBAL_ALL_REDUCE, 8, GIMBAL_FLOAT32, small, sizeof(small)),
              GIMBAL_INVALID_ARGUMENT);
    EXPECT_STREQ(small, "all_red");
    EXPECT_EQ(gimbal_explain(communicator.get(), static_cast<gimbal_collective_t>(13), 8, GIMBAL_FLOAT32, text, sizeof(text)),
              GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(gimbal_explain(communicator.get(), GIMBAL_ALL_REDUCE, 8, static_cast<gimbal_dtype_t>(12), text, sizeof(text)),
              GIMBAL_INVALID_ARGUMENT);
  });
}

// A build without CUDA serves no stream; one with it, none for host memory.
TEST_P(Insight, StreamWithHostMemoryIsRefusedAndLosesOnlyTheCall) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator communicator(context);
    int32_t value = 1;
    int stream = 0;
    gimbal_request_t request = nullptr;
    EXPECT_THAT(gimbal_all_reduce(&value, &value, 1, GIMBAL_INT32, GIMBAL_SUM, communicator.get(), &stream),
                AnyOf(GIMBAL_UNSUPPORTED, GIMBAL_INVALID_ARGUMENT));
    EXPECT_THAT(gimbal_last_error(), HasSubstr("stream"));
    EXPECT_EQ(gimbal_barrier_start(communicator.get(), &stream, &request), GIMBAL_UNSUPPORTED);
    communicator.all_reduce(&value, &value, 1, GIMBAL_INT32, GIMBAL_SUM);
    EXPECT_EQ(value, 2);
  });
}

TEST_P(Insight, UnknownVariableIsWarnedAboutThroughTheCallback) {
  const ScopedEnvironment variable("GIMBAL_TIMEOUTS", "3s");
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    std::mutex mutex;  // lines may come from any thread
    std::vector<std::string> warnings;
    struct Sink {
      std::mutex& mutex;
      std::vector<std::string>& warnings;
    } sink{mutex, warnings};
    gimbal_config_t config = rank_config(context);
    config.log_context = &sink;
    config.log = [](void* opaque, int level, const char* message) {
      const auto& to = *static_cast<Sink*>(opaque);
      const std::lock_guard<std::mutex> lock(to.mutex);
      if (level == 1) to.warnings.emplace_back(message);
    };
    const Communicator communicator(config);
    const std::lock_guard<std::mutex> lock(mutex);
    EXPECT_THAT(warnings, testing::Contains(AllOf(HasSubstr("GIMBAL_TIMEOUTS"), HasSubstr("GIMBAL_TIMEOUT?"))));
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Insight, testing::ValuesIn(rank_kinds()), kind_test_name);

// A store of the caller's own: a table in memory that the ranks' threads share.
struct Table {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;

  bool wait_for(std::unique_lock<std::mutex>& lock, const std::string& key, int64_t timeout_ms) {
    return changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return values.count(key) != 0; });
  }
};

int table_set(void* context, const char* key, const void* value, size_t bytes) {
  auto& table = *static_cast<Table*>(context);
  const std::lock_guard<std::mutex> lock(table.mutex);
  table.values[key] = std::string(static_cast<const char*>(value), bytes);
  table.changed.notify_all();
  return 0;
}

int table_get(void* context, const char* key, void* value, size_t* bytes, int64_t timeout_ms) {
  auto& table = *static_cast<Table*>(context);
  std::unique_lock<std::mutex> lock(table.mutex);
  if (!table.wait_for(lock, key, timeout_ms)) return 1;
  const std::string& stored = table.values[key];
  std::memcpy(value, stored.data(), std::min(*bytes, stored.size()));
  *bytes = stored.size();
  return 0;
}

int table_wait(void* context, const char* key, int64_t timeout_ms) {
  auto& table = *static_cast<Table*>(context);
  std::unique_lock<std::mutex> lock(table.mutex);
  return table.wait_for(lock, key, timeout_ms) ? 0 : 1;
}

int table_add(void* context, const char* key, int64_t amount, int64_t* result) {
  auto& table = *static_cast<Table*>(context);
  const std::lock_guard<std::mutex> lock(table.mutex);
  std::string& text = table.values[key];
  *result = (text.empty() ? 0 : std::stoll(text)) + amount;
  text = std::to_string(*result);
  table.changed.notify_all();
  return 0;
}

class Meeting : public RanksTest {};

TEST_F(Meeting, RanksMeetThroughTheCallersStore) {
  Table table;
  const gimbal_store_t store = {table_set, table_get, table_wait, table_add, &table};
  run_ranks(RankKind::kThreads, 4, [&store](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.rendezvous = nullptr;
    config.store = &store;
    Communicator communicator(config);
    int32_t value = 1;
    communicator.all_reduce(&value, &value, 1, GIMBAL_INT32, GIMBAL_SUM);
    EXPECT_EQ(value, 4);
  });
}

TEST_F(Meeting, StoreThatFailsIsAnError) {
  gimbal_store_t store = {};
  store.set = [](void*, const char*, const void*, size_t) { return 5; };
  store.get = [](void*, const char*, void*, size_t*, int64_t) { return 5; };
  store.wait = [](void*, const char*, int64_t) { return 5; };
  store.add = [](void*, const char*, int64_t, int64_t*) { return 5; };
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  config.rank = 0;
  config.size = 2;
  config.store = &store;
  config.connect_timeout_ms = 500;
  gimbal_comm_t comm = nullptr;
  EXPECT_NE(gimbal_comm_create(&config, &comm), GIMBAL_OK);
  EXPECT_EQ(comm, nullptr);
  EXPECT_STRNE(gimbal_last_error(), "");
}

// Processes, because a key is its process's environment.
TEST_F(Meeting, JobsWithDifferentKeysRefuseEachOther) {
  if (rank_kinds().size() < 2) GTEST_SKIP() << "no forked ranks in this build";
  run_ranks(RankKind::kProcesses, 2, [](const RankContext& context) {
    ASSERT_EQ(setenv("GIMBAL_JOB_KEY", context.rank == 0 ? "mine" : "yours", 1), 0);
    gimbal_config_t config = rank_config(context);
    config.connect_timeout_ms = 1'500;
    gimbal_comm_t comm = nullptr;
    EXPECT_NE(gimbal_comm_create(&config, &comm), GIMBAL_OK);
    EXPECT_STRNE(gimbal_last_error(), "");
    EXPECT_EQ(std::string(gimbal_last_error()).find("mine"), std::string::npos) << "a secret in a message";
    EXPECT_EQ(std::string(gimbal_last_error()).find("yours"), std::string::npos) << "a secret in a message";
  });
}

TEST(Version, IsThatOfTheHeader) {
  int major = -1;
  int minor = -1;
  int patch = -1;
  expect_ok(gimbal_version(&major, &minor, &patch));
  EXPECT_EQ(major, GIMBAL_VERSION_MAJOR);
  EXPECT_EQ(minor, GIMBAL_VERSION_MINOR);
  EXPECT_EQ(patch, GIMBAL_VERSION_PATCH);
  expect_ok(gimbal_version(nullptr, nullptr, nullptr));
  EXPECT_EQ(gimbal_version_string(), std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch));
}

}  // namespace
}  // namespace gimbal::test
