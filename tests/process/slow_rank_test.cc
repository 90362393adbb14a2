// Case C36: a rank that is late or stopped, but in time, costs nothing but the wait; one that is too late is named. Time is
// what these tests are about, so they let it pass.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "base/deadline.h"
#include "tests/support/known_sum.h"
#include "tests/support/scenario.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/shared_page.h"

namespace gimbal::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kRanks = 3;
constexpr int32_t kLateRank = 2;
constexpr int64_t kMs = 1'000'000;

class LateRank : public RanksTest, public testing::WithParamInterface<RankKind> {};

gimbal_config_t config_with_timeout(const RankContext& context, int64_t timeout_ms) {
  gimbal_config_t config = rank_config(context);
  config.timeout_ms = timeout_ms;
  return config;
}

TEST_P(LateRank, WithinTheTimeoutIsWaitedFor) {
  run_ranks(GetParam(), kRanks, [](const RankContext& context) {
    Communicator communicator(config_with_timeout(context, kTimeoutMs));
    KnownSum sum(communicator, 100'000);
    if (context.rank == kLateRank) std::this_thread::sleep_for(milliseconds(1'000));
    expect_exact_sum(sum);
  });
}

TEST_P(LateRank, PastTheTimeoutIsNamedOnTime) {
  constexpr int64_t kShortTimeoutMs = 2'000;
  run_ranks(GetParam(), kRanks, [](const RankContext& context) {
    Communicator communicator(config_with_timeout(context, kShortTimeoutMs));
    KnownSum sum(communicator, 100'000);
    if (context.rank == kLateRank) std::this_thread::sleep_for(milliseconds(2 * kShortTimeoutMs));
    const int64_t begin_ns = monotonic_ns();
    EXPECT_EQ(sum.run(), GIMBAL_TIMEOUT) << "rank " << context.rank << ": " << gimbal_last_error();
    const int64_t waited_ms = (monotonic_ns() - begin_ns) / kMs;
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("all_reduce"), HasSubstr("for rank 2 (pid ")));
    if (context.rank == kLateRank) {
      EXPECT_LT(waited_ms, 1'000) << "the others have given up long ago";
    } else {
      EXPECT_NEAR(static_cast<double>(waited_ms), kShortTimeoutMs, 1'000);
    }
  });
}

// Lines of the log, from any thread.
class Lines {
 public:
  void attach(gimbal_config_t& config) {
    config.log_context = this;
    config.log = [](void* self, int level, const char* line) {
      constexpr int kWarning = 1;
      if (level > kWarning) return;
      auto& lines = *static_cast<Lines*>(self);
      const std::lock_guard<std::mutex> lock(lines.mutex_);
      lines.text_.append(line).append("\n");
    };
  }
  std::string text() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

TEST_P(LateRank, IsNamedInOneWarningWhileItIsWaitedFor) {
  const ScopedEnvironment warn_after("GIMBAL_WARN_AFTER", "300ms");
  run_ranks(GetParam(), kRanks, [](const RankContext& context) {
    Lines lines;
    gimbal_config_t config = config_with_timeout(context, kTimeoutMs);
    lines.attach(config);
    Communicator communicator(config);
    KnownSum sum(communicator, 100'000);
    if (context.rank == kLateRank) std::this_thread::sleep_for(milliseconds(2'000));
    expect_exact_sum(sum);
    const std::string text = lines.text();
    if (context.rank == kLateRank) return;
    EXPECT_THAT(text, AllOf(HasSubstr("has waited 0."), HasSubstr("for rank 2 (pid ")));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, LateRank, testing::ValuesIn(rank_kinds()), kind_test_name);

int64_t cpu_time_ns() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto nanoseconds = [](const timeval& time) { return time.tv_sec * 1'000'000'000 + time.tv_usec * 1'000; };
  return nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
}

class WaitingRank : public ProcessRanksTest, public testing::WithParamInterface<bool> {};

TEST_P(WaitingRank, TakesLessThanAHundredthOfACpu) {
  const bool started = GetParam();
  run_ranks(RankKind::kProcesses, 2, [started](const RankContext& context) {
    Communicator communicator(context);
    if (context.rank == 1) {
      std::this_thread::sleep_for(milliseconds(3'000));
      EXPECT_EQ(gimbal_barrier(communicator.get(), nullptr), GIMBAL_OK) << gimbal_last_error();
      return;
    }
    const int64_t begin_ns = monotonic_ns();
    const int64_t begin_cpu_ns = cpu_time_ns();
    gimbal_request_t request = nullptr;
    EXPECT_EQ(
        started ? gimbal_barrier_start(communicator.get(), nullptr, &request) : gimbal_barrier(communicator.get(), nullptr),
        GIMBAL_OK);
    EXPECT_EQ(gimbal_wait(&request), GIMBAL_OK) << gimbal_last_error();
    EXPECT_LT(cpu_time_ns() - begin_cpu_ns, (monotonic_ns() - begin_ns) / 100);
  });
}

INSTANTIATE_TEST_SUITE_P(Calls, WaitingRank, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "in_wait" : "in_a_blocking_call"; });

struct Stopping {
  std::atomic<pid_t> pid;
  std::atomic<int> rounds;
  std::atomic<int> resumed;
};

// Stops the rank in the middle of its all-reduces and lets it go on two seconds later.
void stop_and_continue(Stopping& stopping) {
  while (stopping.rounds < 3) std::this_thread::yield();
  kill(stopping.pid, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(2'000));
  kill(stopping.pid, SIGCONT);
  stopping.resumed = 1;
}

void all_reduce_until_resumed(Communicator& communicator, Stopping& stopping) {
  KnownSum sum(communicator, size_t{1} << 20);
  int32_t seen = 0;
  while (seen < kRanks) {
    expect_exact_sum(sum);
    if (communicator.rank() == kLateRank) stopping.rounds.fetch_add(1);
    const int32_t mine = stopping.resumed;
    communicator.all_reduce(&mine, &seen, 1, GIMBAL_INT32, GIMBAL_SUM);
  }
}

class StoppedRank : public ProcessRanksTest {};

TEST_F(StoppedRank, GoesOnWithExactSumsWhenItIsContinued) {
  const Shared<Stopping> stopping;
  run_ranks(RankKind::kProcesses, kRanks + 1, [&](const RankContext& context) {
    if (context.rank == kRanks) {
      stop_and_continue(*stopping);
      return;
    }
    if (context.rank == kLateRank) stopping->pid = getpid();
    const RankContext world = {context.rank, kRanks, context.rendezvous};
    Communicator communicator(config_with_timeout(world, 10'000));
    all_reduce_until_resumed(communicator, *stopping);
  });
}

class LongIdle : public ProcessRanksTest {};

TEST_F(LongIdle, MinutesBetweenTwoCallsFailNobody) {
  const auto results = run_processes(
      kRanks,
      [](const RankContext& context) {
        Communicator communicator(config_with_timeout(context, 10'000));
        KnownSum sum(communicator, 100'000);
        expect_exact_sum(sum);
        const int64_t begin_cpu_ns = cpu_time_ns();
        std::this_thread::sleep_for(minutes(15));
        EXPECT_LT(cpu_time_ns() - begin_cpu_ns, 1'000 * kMs);
        expect_exact_sum(sum);
      },
      minutes(20) / milliseconds(1));
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.output;
}

}  // namespace
}  // namespace gimbal::test
