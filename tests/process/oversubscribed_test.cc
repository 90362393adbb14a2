// Case C39: more ranks than CPUs. Small all-reduces slow down in proportion, also beside programs that never sleep; nothing
// collapses.
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/deadline.h"
#include "tests/support/known_sum.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

constexpr int kRounds = 1000;
constexpr int64_t kNothingLastsLongerMs = 30'000;

// The first two CPUs that this process may use, or the one there is.
cpu_set_t two_cpus() {
  cpu_set_t allowed;
  cpu_set_t two;
  CPU_ZERO(&allowed);
  CPU_ZERO(&two);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &two);
  }
  return two;
}

void run_small_all_reduces(int32_t ranks, int64_t most_ms_each) {
  const auto results = run_processes(
      ranks,
      [most_ms_each](const RankContext& context) {
        const cpu_set_t two = two_cpus();
        ASSERT_EQ(sched_setaffinity(0, sizeof(two), &two), 0);
        Communicator communicator(context);
        KnownSum sum(communicator, 256);
        const int64_t begin_ns = monotonic_ns();
        for (int round = 0; round < kRounds; ++round) expect_exact_sum(sum);
        EXPECT_LT((monotonic_ns() - begin_ns) / kRounds, most_ms_each * 1'000'000);
      },
      kNothingLastsLongerMs);
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << ranks << " ranks: " << result.output;
}

class Oversubscribed : public ProcessRanksTest, public testing::WithParamInterface<int32_t> {};

TEST_P(Oversubscribed, RanksOnTwoCpusTakeMillisecondsAtMost) { run_small_all_reduces(GetParam(), GetParam() <= 8 ? 5 : 10); }

INSTANTIATE_TEST_SUITE_P(Ranks, Oversubscribed, testing::Values(2, 4, 8, 16),
                         [](const auto& tested) { return std::to_string(tested.param); });

// Programs that never sleep, one on each of the CPUs, until the end of the scope.
class BusyCpus {
 public:
  BusyCpus() {
    const cpu_set_t two = two_cpus();
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &two)) pids_.push_back(start(cpu));
    }
  }
  BusyCpus(const BusyCpus&) = delete;
  BusyCpus& operator=(const BusyCpus&) = delete;
  ~BusyCpus() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

 private:
  static pid_t start(size_t cpu) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    alarm(kNothingLastsLongerMs / 1000);  // ends it even when the test is killed
    volatile bool busy = true;
    while (busy) {
    }
    _exit(0);
  }

  std::vector<pid_t> pids_;
};

class BesideBusyPrograms : public ProcessRanksTest {};

// A rank that yields to a busy program comes back a scheduler's slice (3 to 4 ms) later, and an all-reduce hands over several
// times.
TEST_F(BesideBusyPrograms, EightRanksDoNotCollapse) {
  const BusyCpus busy;
  constexpr int64_t kMostMsEach = kNothingLastsLongerMs / kRounds;
  run_small_all_reduces(8, kMostMsEach);
}

}  // namespace
}  // namespace gimbal::test
