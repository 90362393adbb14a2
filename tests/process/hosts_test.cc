// Ranks on emulated hosts, by command and by fork (tests/hosts/ has what a host is).
#include "tests/support/hosts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "tests/support/command.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

class HostsTest : public ProcessRanksTest {};

TEST_F(HostsTest, ACommandRunsInsideOne) {
  const auto hosts = Hosts::start(2);
  if (!hosts.ok()) GTEST_SKIP() << hosts.status().message();
  const CommandResult result = run_command((*hosts)->inside(1, {"hostname"}));
  EXPECT_EQ(result.out, (**hosts)[1].name + "\n") << result.err;
}

TEST_F(HostsTest, AForkedRankEntersItsOwn) {
  const auto hosts = Hosts::start(2);
  if (!hosts.ok()) GTEST_SKIP() << hosts.status().message();
  const std::string here = std::filesystem::current_path();
  const std::vector<ProcessResult> results = run_processes(
      2,
      [&](const RankContext& context) {
        const Hosts::Host& own = (**hosts)[static_cast<size_t>(context.rank)];
        (*hosts)->enter(static_cast<size_t>(context.rank));
        std::array<char, 256> name{};
        ASSERT_EQ(gethostname(name.data(), name.size()), 0);
        EXPECT_EQ(name.data(), own.name);
        EXPECT_TRUE(std::filesystem::exists("/sys/class/net/eth0"));
        EXPECT_EQ(std::filesystem::current_path(), here);
      },
      30'000);
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(HostsTest, OneThatIsCutOffLosesItsInterface) {
  const auto hosts = Hosts::start(2);
  if (!hosts.ok()) GTEST_SKIP() << hosts.status().message();
  const auto interfaces = [&](size_t host) { return run_command((*hosts)->inside(host, {"ls", "/sys/class/net"})).out; };
  (*hosts)->cut(0);
  EXPECT_EQ(interfaces(0), "lo\n");
  EXPECT_EQ(interfaces(1), "eth0\nlo\n");
}

}  // namespace
}  // namespace gimbal::test
