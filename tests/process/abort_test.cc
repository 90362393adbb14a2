// gimbal_comm_abort and gimbal_comm_destroy while calls are under way: everybody returns at once, with the reason.
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "base/deadline.h"
#include "tests/support/scenario.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/shared_page.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kReturnsWithinNs = 2'000'000'000;
constexpr int32_t kAbsentRank = 2;  // never makes the call that the others wait in

// The ways to be blocked.
struct Blocked {
  const char* name;
  gimbal_status_t (*call)(gimbal_comm_t, std::vector<float>& data);
  gimbal_progress_t progress = GIMBAL_PROGRESS_THREAD;
};

gimbal_status_t wait_in_all_reduce(gimbal_comm_t comm, std::vector<float>& data) {
  return gimbal_all_reduce(data.data(), data.data(), data.size(), GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr);
}

gimbal_status_t wait_for_request(gimbal_comm_t comm, std::vector<float>& data) {
  gimbal_request_t request = nullptr;
  const gimbal_status_t started =
      gimbal_all_reduce_start(data.data(), data.data(), data.size(), GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr, &request);
  const gimbal_status_t status = gimbal_wait(&request);
  return started == GIMBAL_OK ? status : started;
}

gimbal_status_t wait_for_message(gimbal_comm_t comm, std::vector<float>& data) {
  return gimbal_recv(data.data(), data.size(), GIMBAL_FLOAT32, kAbsentRank, comm, nullptr);
}

gimbal_status_t wait_in_group(gimbal_comm_t comm, std::vector<float>& data) {
  gimbal_group_start();
  gimbal_all_reduce(data.data(), data.data(), data.size(), GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr);
  gimbal_recv(data.data(), data.size(), GIMBAL_FLOAT32, kAbsentRank, comm, nullptr);
  return gimbal_group_end();
}

const Blocked kWays[] = {
    {"all_reduce", wait_in_all_reduce},
    {"barrier", [](gimbal_comm_t comm, std::vector<float>&) { return gimbal_barrier(comm, nullptr); }},
    {"request", wait_for_request},
    {"request_driven_by_caller", wait_for_request, GIMBAL_PROGRESS_CALLER},
    {"recv", wait_for_message},
    {"group", wait_in_group},
};

// The library's own word that it waits: its warning after GIMBAL_WARN_AFTER, given to a thread that aborts.
class AbortWhenWaiting {
 public:
  explicit AbortWhenWaiting(std::atomic<int64_t>& aborted_at_ns) : aborted_at_ns_(aborted_at_ns) {}
  void attach(gimbal_config_t& config) {
    config.log_context = this;
    config.log = [](void* self, int level, const char*) {
      constexpr int kWarning = 1;
      if (level != kWarning) return;
      static_cast<AbortWhenWaiting*>(self)->waits_.store(true);
      static_cast<AbortWhenWaiting*>(self)->waits_.notify_all();
    };
  }
  void start(gimbal_comm_t comm) {
    thread_ = std::thread([this, comm] {
      waits_.wait(false);
      aborted_at_ns_.store(monotonic_ns());
      EXPECT_EQ(gimbal_comm_abort(comm), GIMBAL_OK);
    });
  }
  // A call that returned without a warning has failed the test already; the thread must not wait for ever.
  void finish() {
    waits_.store(true);
    waits_.notify_all();
    thread_.join();
  }

 private:
  std::atomic<bool> waits_{false};
  std::atomic<int64_t>& aborted_at_ns_;
  std::thread thread_;
};

// What a rank does that is not in the call: it looks now and then whether all is well.
gimbal_status_t watch_status(gimbal_comm_t comm) {
  const Deadline deadline = Deadline::after_ms(kTimeoutMs);
  while (gimbal_comm_status(comm) == GIMBAL_OK && !deadline.passed()) std::this_thread::yield();
  return gimbal_comm_status(comm);
}

class Abort : public RanksTest, public testing::WithParamInterface<std::tuple<RankKind, Blocked>> {
 private:
  ScopedEnvironment warn_soon_{"GIMBAL_WARN_AFTER", "20ms"};
};

TEST_P(Abort, FromAnotherThreadEndsTheCallOnEveryRank) {
  const auto& [kind, way] = GetParam();
  const Shared<std::atomic<int64_t>> aborted_at_ns;
  run_ranks(kind, 3, [&, way = way](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.progress = way.progress;
    AbortWhenWaiting aborter(*aborted_at_ns);
    aborter.attach(config);
    Communicator communicator(config);
    std::vector<float> data(size_t{1} << 18);
    if (context.rank == 0) aborter.start(communicator.get());
    const gimbal_status_t status =
        context.rank == kAbsentRank ? watch_status(communicator.get()) : way.call(communicator.get(), data);
    const int64_t returned_ns = monotonic_ns();
    EXPECT_EQ(status, GIMBAL_ABORTED) << "rank " << context.rank << ": " << gimbal_last_error();
    EXPECT_THAT(gimbal_last_error(), HasSubstr("was aborted by rank 0"));
    if (context.rank == 0) aborter.finish();
    EXPECT_LT(returned_ns - *aborted_at_ns, kReturnsWithinNs);
    EXPECT_EQ(wait_in_all_reduce(communicator.get(), data), GIMBAL_ABORTED) << "it stays aborted";
    const int64_t begin_ns = monotonic_ns();
    EXPECT_EQ(gimbal_comm_destroy(communicator.get()), GIMBAL_OK);
    EXPECT_LT(monotonic_ns() - begin_ns, kReturnsWithinNs);
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, Abort, testing::Combine(testing::ValuesIn(rank_kinds()), testing::ValuesIn(kWays)),
                         [](const auto& tested) {
                           return rank_kind_name(std::get<0>(tested.param)) + "_" + std::get<1>(tested.param).name;
                         });

// Calls that wait on the control connections, and warn nobody that they do.
const Blocked kControlWays[] = {
    {"mem_alloc",
     [](gimbal_comm_t comm, std::vector<float>&) {
       void* memory = nullptr;
       return gimbal_mem_alloc(comm, GIMBAL_MEMORY_HOST, 4096, &memory);
     }},
    {"split",
     [](gimbal_comm_t comm, std::vector<float>&) {
       gimbal_comm_t out = nullptr;
       return gimbal_comm_split(comm, 0, 0, &out);
     }},
};

// Whether the thread, of any process, sleeps.
bool sleeps(pid_t thread) {
  std::ifstream file("/proc/" + std::to_string(thread) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.compare(name_end, 3, ") S") == 0;
}

class AbortOfControl : public RanksTest, public testing::WithParamInterface<std::tuple<RankKind, Blocked>> {};

TEST_P(AbortOfControl, EndsTheCallOnTheRanksThatWaitInIt) {
  const auto& [kind, way] = GetParam();
  struct Page {
    std::atomic<pid_t> waiting[2];  // their threads, when they are about to call
    std::atomic<int64_t> aborted_at_ns;
  };
  const Shared<Page> page;
  run_ranks(kind, 3, [&, way = way](const RankContext& context) {
    Communicator communicator(context);
    std::vector<float> data(1);
    if (context.rank == kAbsentRank) {
      const Deadline deadline = Deadline::after_ms(kTimeoutMs);
      const auto waits = [](const std::atomic<pid_t>& thread) { return thread.load() != 0 && sleeps(thread.load()); };
      while (!(waits(page->waiting[0]) && waits(page->waiting[1])) && !deadline.passed()) std::this_thread::yield();
      page->aborted_at_ns.store(monotonic_ns());
      EXPECT_EQ(gimbal_comm_abort(communicator.get()), GIMBAL_OK);
      return;
    }
    page->waiting[context.rank].store(gettid());
    EXPECT_EQ(way.call(communicator.get(), data), GIMBAL_ABORTED) << gimbal_last_error();
    EXPECT_THAT(gimbal_last_error(), HasSubstr("was aborted by rank 2"));
    EXPECT_LT(monotonic_ns() - page->aborted_at_ns.load(), kReturnsWithinNs);
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, AbortOfControl,
                         testing::Combine(testing::ValuesIn(rank_kinds()), testing::ValuesIn(kControlWays)),
                         [](const auto& tested) {
                           return rank_kind_name(std::get<0>(tested.param)) + "_" + std::get<1>(tested.param).name;
                         });

class Destroy : public RanksTest, public testing::WithParamInterface<RankKind> {};

TEST_P(Destroy, WithARequestUnderWayAbortsItAndTellsThePeerWhoWaits) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator communicator(context);
    std::vector<float> data(size_t{1} << 18);
    if (context.rank == 1) {
      EXPECT_EQ(gimbal_recv(data.data(), data.size(), GIMBAL_FLOAT32, 0, communicator.get(), nullptr), GIMBAL_REMOTE)
          << gimbal_last_error();
      EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("rank 0 (pid "), HasSubstr("has left")));
      return;
    }
    gimbal_request_t request = nullptr;
    ASSERT_EQ(gimbal_recv_start(data.data(), data.size(), GIMBAL_FLOAT32, 1, communicator.get(), nullptr, &request), GIMBAL_OK);
    const int64_t begin_ns = monotonic_ns();
    EXPECT_EQ(gimbal_comm_destroy(communicator.get()), GIMBAL_OK);
    EXPECT_LT(monotonic_ns() - begin_ns, kReturnsWithinNs);
    EXPECT_EQ(gimbal_wait(&request), GIMBAL_ABORTED);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("destroyed before the operation completed"));
  });
}

// A rank that has its result may go at once: what it had to say is in shared memory.
TEST_P(Destroy, RightAfterTheLastOperationHarmsNobody) {
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    run_ranks(GetParam(), 3, [](const RankContext& context) {
      Communicator communicator(context);
      std::vector<float> data(size_t{1} << 16, 1.0F);
      EXPECT_EQ(wait_in_all_reduce(communicator.get(), data), GIMBAL_OK) << gimbal_last_error();
      EXPECT_EQ(data.back(), 3.0F);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Destroy, testing::ValuesIn(rank_kinds()), kind_test_name);

}  // namespace
}  // namespace gimbal::test
