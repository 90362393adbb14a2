// Case C22, on one host: a host name that resolves to nothing matters to nobody.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/deadline.h"
#include "tests/support/command.h"
#include "tests/support/known_sum.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

constexpr char kHostName[] = "nosuch.invalid";

// The error number; 0 for success.
int rename_host_of_this_process() {
  if (unshare(CLONE_NEWUTS) != 0) return errno;
  return sethostname(kHostName, std::strlen(kHostName)) == 0 ? 0 : errno;
}

class UnresolvableHostName : public ProcessRanksTest {};

// A wait for a name server would be in every create, a loaded machine's pause is not.
TEST_F(UnresolvableHostName, NeitherFailsNorDelaysCreate) {
  const auto results = run_processes(
      1, [](const RankContext&) { _exit(rename_host_of_this_process()); }, kTimeoutMs);
  if (results[0].exit_code != 0) GTEST_SKIP() << "no namespace for host names: " << strerror(results[0].exit_code);
  run_ranks(RankKind::kProcesses, 2, [](const RankContext& context) {
    ASSERT_EQ(rename_host_of_this_process(), 0);
    int64_t fastest_ns = INT64_MAX;
    for (int i = 0; i < 5; ++i) {
      const int64_t begin_ns = monotonic_ns();
      Communicator communicator(context);
      fastest_ns = std::min(fastest_ns, monotonic_ns() - begin_ns);
      KnownSum sum(communicator, 1000);
      expect_exact_sum(sum);
    }
    EXPECT_LT(fastest_ns, 1'000'000'000);
  });
}

TEST_F(UnresolvableHostName, DoesNotMatterToALaunchedJob) {
  const CommandResult result =
      run_command({"unshare", "-u", "sh", "-c",
                   "echo " + std::string(kHostName) + " > /proc/sys/kernel/hostname && exec " + binary("gimbal-run") +
                       " -n 2 " + binary("gimbal-bench") + " -b 1K -e 1K -n 2 -w 0"});
  if (result.err.find("unshare failed") != std::string::npos) GTEST_SKIP() << result.err;
  EXPECT_EQ(result.status, 0) << result.err;
}

}  // namespace
}  // namespace gimbal::test
