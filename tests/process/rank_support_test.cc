// The tests' own support: what it promises to notice, it notices.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/file_descriptor.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

using testing::HasSubstr;

constexpr int64_t kLongMs = 60'000;

TEST(RunProcesses, GiveEachRankItsNumberAndCollectItsOutput) {
  const auto results = run_processes(
      3, [](const RankContext& context) { std::printf("I am %d of %d", context.rank, context.size); }, kLongMs);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[2].output, "I am 2 of 3");
  EXPECT_EQ(results[2].exit_code, 0);
}

TEST(RunProcesses, ReportARankThatDiedByASignal) {
  const auto results = run_processes(
      2,
      [](const RankContext& context) {
        if (context.rank == 1) raise(SIGKILL);
      },
      kLongMs);
  EXPECT_EQ(results[0].exit_code, 0);
  EXPECT_EQ(results[1].exit_code, -1);
  EXPECT_EQ(results[1].signal, SIGKILL);
}

TEST(RunProcesses, KillARankThatIsNotDoneAtTheDeadline) {
  const auto results = run_processes(
      1, [](const RankContext&) { pause(); }, 50);
  EXPECT_TRUE(results[0].timed_out);
}

TEST(RunProcesses, ReportARankWhoseExpectationFailed) {
  const auto results = run_processes(
      1, [](const RankContext&) { EXPECT_EQ(1, 2) << "planted"; }, kLongMs);
  EXPECT_EQ(results[0].exit_code, 1);
  EXPECT_THAT(results[0].output, HasSubstr("planted"));
}

TEST(RunRanks, FailTheTestWhenAProcessDies) {
  const auto die = [](const RankContext&) { raise(SIGKILL); };
  EXPECT_NONFATAL_FAILURE(run_ranks(RankKind::kProcesses, 1, die), "signal 9");
}

void throw_planted(const RankContext&) { throw std::runtime_error("planted"); }

TEST(RunRanks, FailTheTestWhenARankThrows) {
  EXPECT_NONFATAL_FAILURE_ON_ALL_THREADS(run_ranks(RankKind::kThreads, 1, throw_planted), "planted");
}

class Leftovers : public RanksTest {};

TEST_F(Leftovers, NameADescriptorThatStayedOpen) {
  const Resources before = current_resources();
  const FileDescriptor leaked(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(leftovers(before, current_resources()), HasSubstr("-> /dev/null"));
}

TEST_F(Leftovers, NameAnEntryOfDevShm) {
  const Resources before = current_resources();
  const std::string path = "/dev/shm/gimbal-planted-" + std::to_string(getpid());
  std::ofstream(path) << "x";
  const std::string found = leftovers(before, current_resources());
  std::filesystem::remove(path);
  EXPECT_THAT(found, HasSubstr(path));
}

TEST_F(Leftovers, NameAProcessThatOutlivedTheRankThatMadeIt) {
  const Resources before = current_resources();
  const auto leave_an_orphan = [](const RankContext&) {
    if (fork() == 0) _exit(0);
  };
  run_processes(1, leave_an_orphan, kLongMs);
  EXPECT_THAT(leftovers(before, current_resources()), HasSubstr("a child process"));
  waitpid(-1, nullptr, 0);  // the orphan, unless leftovers() found it already dead
}

}  // namespace
}  // namespace gimbal::test
