// Case C34: a rank is killed in the middle of its work. Every survivor is told who within a second, whatever it was doing, and
// ends its communicator without waiting for anybody.
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <functional>

#include "base/deadline.h"
#include "tests/support/scenario.h"
#include "tests/support/shared_page.h"
#include "tests/support/sudden_end.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kRanks = 4;
constexpr int64_t kNanosPerMs = 1'000'000;
constexpr int64_t kNoticedMs = 1'000;
constexpr int64_t kEndedMs = 2'000;

// What the ranks do over and over. Returns the status of the first call that fails.
using Work = std::function<gimbal_status_t(Communicator&, const std::function<void()>& after_round)>;

struct Death {
  std::atomic<int64_t> at_ns;  // 0: nobody is to die yet
};

// The rank dies a few milliseconds after its first round, which is in the middle of the second.
void die_soon(Death& death) {
  constexpr int64_t kSoonNs = 4 * kNanosPerMs;
  if (death.at_ns != 0) return;
  death.at_ns = monotonic_ns() + kSoonNs;
  end_suddenly_at(death.at_ns);
}

void expect_named(gimbal_status_t status, int32_t victim, const std::string& doing) {
  EXPECT_EQ(status, GIMBAL_REMOTE) << doing << ": " << gimbal_last_error();
  EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("rank " + std::to_string(victim) + " (pid "), HasSubstr("is gone")))
      << doing;
}

void expect_quick_end(gimbal_comm_t comm) {
  int64_t begin_ns = monotonic_ns();
  EXPECT_EQ(gimbal_comm_abort(comm), GIMBAL_OK);
  EXPECT_LT(monotonic_ns() - begin_ns, kEndedMs * kNanosPerMs);
  EXPECT_EQ(gimbal_comm_status(comm), GIMBAL_REMOTE) << "the first error sticks";
  begin_ns = monotonic_ns();
  EXPECT_EQ(gimbal_comm_destroy(comm), GIMBAL_OK);
  EXPECT_LT(monotonic_ns() - begin_ns, kEndedMs * kNanosPerMs);
}

gimbal_config_t patient_config(const RankContext& context) {
  gimbal_config_t config = rank_config(context);
  config.timeout_ms = 60'000;  // only the death may end a wait
  return config;
}

class KilledRank : public ProcessRanksTest, public testing::WithParamInterface<int32_t> {
 protected:
  // Kills rank GetParam() while all ranks do `work`.
  static void kill_one_during(const std::string& name, const std::string& algorithm, const Work& work) {
    const int32_t victim = GetParam();
    const Shared<Death> death;
    const auto live_and_die = [&](const RankContext& context) {
      gimbal_config_t config = patient_config(context);
      if (!algorithm.empty()) config.algorithm = algorithm.c_str();
      Communicator communicator(config);
      const gimbal_status_t status = work(communicator, [&] {
        if (context.rank == victim) die_soon(*death);
      });
      const int64_t noticed_ns = monotonic_ns() - death->at_ns;
      expect_named(status, victim, name);
      EXPECT_LT(noticed_ns, kNoticedMs * kNanosPerMs) << name;
      expect_quick_end(communicator.get());
    };
    expect_survivors(run_processes(kRanks, live_and_die, 2 * kTimeoutMs), name);
  }

  static void expect_survivors(const std::vector<ProcessResult>& results, const std::string& name) {
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      const ProcessResult& result = results[static_cast<size_t>(rank)];
      if (rank == GetParam()) {
        EXPECT_EQ(result.signal, SIGKILL) << name << ", the victim:\n" << result.output;
      } else {
        EXPECT_EQ(result.exit_code, 0) << name << ", rank " << rank << ":\n" << result.output;
      }
    }
  }
};

TEST_P(KilledRank, IsNamedDuringLargeAllReducesOfEveryAlgorithm) {
  for (const char* algorithm : kAllReduceAlgorithms) {
    kill_one_during(algorithm, std::string("all_reduce:") + algorithm, [](Communicator& communicator, const auto& after_round) {
      std::vector<float> data(size_t{16} << 20);
      while (true) {
        const gimbal_status_t status =
            gimbal_all_reduce(data.data(), data.data(), data.size(), GIMBAL_FLOAT32, GIMBAL_SUM, communicator.get(), nullptr);
        if (status != GIMBAL_OK) return status;
        after_round();
      }
    });
  }
}

TEST_P(KilledRank, IsNamedDuringSmallAllReduces) {
  kill_one_during("small", "", [](Communicator& communicator, const auto& after_round) {
    float value = 0;
    while (true) {
      const gimbal_status_t status =
          gimbal_all_reduce(&value, &value, 1, GIMBAL_FLOAT32, GIMBAL_SUM, communicator.get(), nullptr);
      if (status != GIMBAL_OK) return status;
      after_round();
    }
  });
}

TEST_P(KilledRank, IsNamedByEveryStartedRequest) {
  kill_one_during("started requests", "", [](Communicator& communicator, const auto& after_round) {
    constexpr size_t kRequests = 4;
    std::vector<float> data(kRequests << 20);
    while (true) {
      std::array<gimbal_request_t, kRequests> requests = {};
      gimbal_status_t first = GIMBAL_OK;
      for (size_t i = 0; i < kRequests && first == GIMBAL_OK; ++i) {
        float* const part = data.data() + (i << 20);
        first = gimbal_all_reduce_start(part, part, size_t{1} << 20, GIMBAL_FLOAT32, GIMBAL_SUM, communicator.get(), nullptr,
                                        &requests[i]);
      }
      // A request that has completed keeps its result; from the first that failed on, all fail.
      for (gimbal_request_t& request : requests) {
        const gimbal_status_t status = gimbal_wait(&request);
        if (first == GIMBAL_OK) first = status;
      }
      if (first != GIMBAL_OK) return first;
      after_round();
    }
  });
}

TEST_P(KilledRank, IsNamedDuringSendAndReceive) {
  kill_one_during("send and recv", "", [](Communicator& communicator, const auto& after_round) {
    // A ring of messages: a rank that is no neighbour of the victim hears of it all the same.
    std::vector<float> out(size_t{1} << 20);
    std::vector<float> in(out.size());
    const int32_t next = (communicator.rank() + 1) % kRanks;
    const int32_t previous = (communicator.rank() + kRanks - 1) % kRanks;
    while (true) {
      gimbal_request_t sending = nullptr;
      gimbal_status_t status =
          gimbal_send_start(out.data(), out.size(), GIMBAL_FLOAT32, next, communicator.get(), nullptr, &sending);
      if (status == GIMBAL_OK) {
        status = gimbal_recv(in.data(), in.size(), GIMBAL_FLOAT32, previous, communicator.get(), nullptr);
        const gimbal_status_t sent = gimbal_wait(&sending);
        if (status == GIMBAL_OK) status = sent;
      }
      if (status != GIMBAL_OK) return status;
      after_round();
    }
  });
}

TEST_P(KilledRank, IsNamedByGroups) {
  kill_one_during("groups", "", [](Communicator& communicator, const auto& after_round) {
    constexpr size_t kParts = 100;
    std::vector<float> data(kParts * 256);
    while (true) {
      gimbal_group_start();
      for (size_t part = 0; part < kParts; ++part) {
        float* const at = data.data() + part * 256;
        gimbal_all_reduce(at, at, 256, GIMBAL_FLOAT32, GIMBAL_SUM, communicator.get(), nullptr);
      }
      const gimbal_status_t status = gimbal_group_end();
      if (status != GIMBAL_OK) return status;
      after_round();
    }
  });
}

// A rank that dies before it has joined is a missing rank (case C21); this one dies when all know each other and connect.
TEST_P(KilledRank, IsNamedByTheOthersCreate) {
  const int32_t victim = GetParam();
  const Shared<Death> death;
  const auto create_and_die = [&](const RankContext& context) {
    gimbal_config_t config = patient_config(context);
    if (context.rank == victim) {
      config.log_context = &*death;
      config.log = [](void* death_of_victim, int, const char* line) {
        if (std::string(line).find("have joined; connecting") == std::string::npos) return;
        static_cast<Death*>(death_of_victim)->at_ns = monotonic_ns();
        raise(SIGKILL);
      };
    }
    gimbal_comm_t comm = nullptr;
    const gimbal_status_t status = gimbal_comm_create(&config, &comm);
    const int64_t noticed_ns = monotonic_ns() - death->at_ns;
    EXPECT_EQ(status, GIMBAL_REMOTE) << gimbal_last_error();
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("rank " + std::to_string(victim)), HasSubstr("is gone")));
    EXPECT_LT(noticed_ns, kNoticedMs * kNanosPerMs);
    EXPECT_EQ(comm, nullptr);
  };
  expect_survivors(run_processes(kRanks, create_and_die, 2 * kTimeoutMs), "create");
}

INSTANTIATE_TEST_SUITE_P(Victims, KilledRank, testing::Range(0, kRanks),
                         [](const auto& tested) { return "rank_" + std::to_string(tested.param); });

}  // namespace
}  // namespace gimbal::test
