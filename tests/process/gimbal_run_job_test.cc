// Case C34 as a user meets it: a rank of a job under gimbal-run is killed.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/deadline.h"
#include "tests/support/command.h"
#include "tests/support/leftovers.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class JobUnderGimbalRun : public ProcessRanksTest {};

pid_t pid_of_rank(const std::string& output, int rank) {
  const std::string label = "pid of " + std::to_string(rank) + " is ";
  const size_t at = output.find(label);
  return at == std::string::npos ? -1 : std::atoi(output.c_str() + at + label.size());
}

// Until the process has mapped what all ranks of the job share: it is past its start.
bool is_at_work(pid_t pid) {
  const Deadline deadline = Deadline::after_ms(60'000);
  while (!deadline.passed()) {
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    const std::string text{std::istreambuf_iterator<char>(maps), {}};
    if (text.find("/memfd:gimbal-") != std::string::npos) return true;
    std::this_thread::yield();
  }
  return false;
}

TEST_F(JobUnderGimbalRun, WhoseRankIsKilledEndsAtOnceNamesItAndHasItsStatus) {
  for (int rank = 0; rank < 3; ++rank) {
    // Endless for this test's purpose.
    const std::string script = "echo pid of $RANK is $$; exec " + binary("gimbal-bench") + " -b 1K -e 16M -n 1000000 -c 0";
    Command job({binary("gimbal-run"), "-n", "3", "sh", "-c", script});
    ASSERT_TRUE(job.wait_for("pid of " + std::to_string(rank) + " is "));
    const pid_t victim = pid_of_rank(job.out(), rank);
    ASSERT_GT(victim, 0) << job.out();
    ASSERT_TRUE(is_at_work(victim));
    const int64_t begin_ns = monotonic_ns();
    ASSERT_EQ(kill(victim, SIGKILL), 0);
    const CommandResult result = job.finish();
    EXPECT_EQ(result.status, 128 + SIGKILL);
    EXPECT_THAT(result.err, AllOf(HasSubstr("rank " + std::to_string(rank)), HasSubstr("signal 9")));
    EXPECT_LT(monotonic_ns() - begin_ns, 10'000'000'000);
  }
}

}  // namespace
}  // namespace gimbal::test
