// Cases C26 and C41: few descriptors are an error that names the limit, or suffice; no locked memory matters to nobody.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "tests/support/command.h"
#include "tests/support/known_sum.h"
#include "tests/support/leftovers.h"

namespace gimbal::test {
namespace {

using testing::HasSubstr;

class FewDescriptors : public ProcessRanksTest {
 protected:
  // Sixteen ranks of gimbal-bench under `ulimit -<which> 64`.
  static CommandResult run_under(const std::string& which) {
    return run_command({"sh", "-c",
                        "ulimit -" + which + " 64 && exec " + binary("gimbal-run") + " -n 16 " + binary("gimbal-bench") +
                            " -b 1K -e 1K -n 2 -w 0"});
  }
};

TEST_F(FewDescriptors, AsASoftLimitAreRaised) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 256) GTEST_SKIP() << "the hard limit of this machine is " << limit.rlim_max << " descriptors";
  const CommandResult result = run_under("Sn");
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(FewDescriptors, AsAHardLimitSufficeOrAreNamed) {
  const CommandResult result = run_under("n");
  if (result.status == 0) return;
  EXPECT_GT(result.status, 0) << "it hung";
  EXPECT_LT(result.status, 128) << "a signal";
  EXPECT_THAT(result.err, HasSubstr("RLIMIT_NOFILE is 64"));
}

TEST_F(FewDescriptors, OfOneRankAreNamedOnThatRankAndEndTheOthersCreate) {
  const auto results = run_processes(
      3,
      [](const RankContext& context) {
        gimbal_config_t config = rank_config(context);
        config.connect_timeout_ms = 2'000;
        const rlimit few = {16, 16};
        if (context.rank == 1) {
          ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        }
        gimbal_comm_t comm = nullptr;
        const gimbal_status_t status = gimbal_comm_create(&config, &comm);
        EXPECT_EQ(status, context.rank == 1 ? GIMBAL_SYSTEM : GIMBAL_TIMEOUT) << gimbal_last_error();
        EXPECT_THAT(gimbal_last_error(), HasSubstr(context.rank == 1 ? "RLIMIT_NOFILE is 16" : "missing ranks: 1"));
      },
      kTimeoutMs);
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.output;
}

class NoLockedMemory : public ProcessRanksTest {};

TEST_F(NoLockedMemory, IsNeededAndNothingIsSaidAboutInfiniBand) {
  const auto results = run_processes(
      2,
      [](const RankContext& context) {
        const rlimit none = {0, 0};
        ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &none), 0);
        Communicator communicator(context);
        void* memory = nullptr;
        EXPECT_EQ(gimbal_mem_alloc(communicator.get(), GIMBAL_MEMORY_HOST, 1 << 20, &memory), GIMBAL_OK) << gimbal_last_error();
        KnownSum sum(communicator, size_t{1} << 20);
        expect_exact_sum(sum);
      },
      kTimeoutMs);
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.output, "");
  }
}

}  // namespace
}  // namespace gimbal::test
