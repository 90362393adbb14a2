// C49: what gimbal-bench measures adds up, what is wrong it finds, and what fails it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/bench_output.h"
#include "tests/support/command.h"

namespace gimbal::test {
namespace {

using ::testing::HasSubstr;

CommandResult bench(const std::vector<std::string>& options, const CommandOptions& how = {}) {
  std::vector<std::string> arguments = {binary("gimbal-bench"), "-n", "3"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_command(arguments, how);
}

// algbw and busbw as printed, with two digits, are what follows from the size and the time as printed, with two digits or more.
void expect_consistent(const BenchRow& row, const BenchHalf& half, double ranks) {
  constexpr double kHalfDigit = 0.005;
  const double least = static_cast<double>(row.bytes) / (half.time_us * 1.001 + kHalfDigit) / 1e3;
  const double most = static_cast<double>(row.bytes) / (half.time_us * 0.999 - kHalfDigit) / 1e3;
  const double factor = 2 * (ranks - 1) / ranks;
  EXPECT_GE(half.algbw_gbps, least - 2 * kHalfDigit) << row.bytes;
  EXPECT_LE(half.algbw_gbps, most + 2 * kHalfDigit) << row.bytes;
  EXPECT_NEAR(half.busbw_gbps, half.algbw_gbps * factor, kHalfDigit * (1 + factor)) << row.bytes;
}

class RanksOfBench : public ::testing::TestWithParam<int> {};

TEST_P(RanksOfBench, PrintColumnsThatFollowFromEachOtherWhenAllIsRight) {
  const CommandResult result = bench({"-b", "4", "-e", "1M", "-f", "2", "-c", "1", "-g", std::to_string(GetParam())});

  EXPECT_EQ(result.status, 0) << result.err;
  const std::vector<BenchRow> rows = bench_rows(result.out);
  ASSERT_EQ(rows.size(), 19u);
  double busbw_sum = 0;
  for (const BenchRow& row : rows) {
    expect_consistent(row, row.out_of_place, GetParam());
    expect_consistent(row, row.in_place, GetParam());
    EXPECT_EQ(row.out_of_place.wrong, "0");
    EXPECT_EQ(row.in_place.wrong, "0");
    busbw_sum += row.out_of_place.busbw_gbps + row.in_place.busbw_gbps;
  }
  EXPECT_THAT(result.out, HasSubstr("# Out of bounds values : 0 OK\n"));
  const size_t at = result.out.find("# Avg bus bandwidth    : ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_NEAR(std::stod(result.out.substr(at + 25)), busbw_sum / static_cast<double>(2 * rows.size()), 0.005);
}

TEST_P(RanksOfBench, FindTheOneByteThatIsWrongInEachLargeResultAndFail) {
  CommandOptions how;
  // The second is for builds with AddressSanitizer, which wants to be the first library itself.
  how.environment = {{"LD_PRELOAD", binary("flip_byte_shim.so")}, {"ASAN_OPTIONS", "verify_asan_link_order=0"}};

  const CommandResult result = bench({"-b", "4", "-e", "1M", "-f", "2", "-c", "1", "-g", std::to_string(GetParam())}, how);

  EXPECT_GT(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("# Out of bounds values : 6 FAILED\n"));
  for (const BenchRow& row : bench_rows(result.out)) {
    const std::string expected = row.bytes > 200'704 ? "1" : "0";
    EXPECT_EQ(row.out_of_place.wrong, expected) << row.bytes;
    EXPECT_EQ(row.in_place.wrong, expected) << row.bytes;
  }
}

TEST_P(RanksOfBench, SayWhichOfThemWasKilled) {
  Command command({binary("gimbal-bench"), "-b", "1M", "-e", "1M", "-N", "0", "-g", std::to_string(GetParam())});
  ASSERT_TRUE(command.wait_for(" sum "));  // the first row
  const std::string mark = "Rank  1 Group  0 Pid ";
  const size_t at = command.out().find(mark);
  ASSERT_NE(at, std::string::npos);
  const pid_t pid = std::stoi(command.out().substr(at + mark.size()));

  kill(pid, SIGKILL);
  const CommandResult result = command.finish();

  EXPECT_EQ(result.status, 128 + SIGKILL);
  EXPECT_THAT(result.err, HasSubstr("rank 1 (pid " + std::to_string(pid) + ") died by signal 9 (Killed)"));
}

INSTANTIATE_TEST_SUITE_P(GimbalBench, RanksOfBench, ::testing::Values(2, 3));

TEST(GimbalBench, ChecksEveryTypeAndOperation) {
  const CommandResult result = bench({"-d", "all", "-o", "all", "-b", "100", "-e", "40000", "-f", "400", "-g", "3"});

  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(bench_rows(result.out).size(), 2u * (6 * 5 + 6 * 8));  // floats have no bitwise operations
}

class CollectiveOfBench : public ::testing::TestWithParam<std::string> {};

TEST_P(CollectiveOfBench, IsRightForEveryRootInBothKindsOfRank) {
  for (const std::vector<std::string>& ranks : {std::vector<std::string>{"-g", "3"}, {"-g", "3", "--threads"}}) {
    std::vector<std::string> options = {"--collective", GetParam(), "-b", "12",  "-e", "120K",
                                        "-f",           "100",      "-r", "all", "-c", "2"};
    options.insert(options.end(), ranks.begin(), ranks.end());

    const CommandResult result = bench(options);

    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("# Out of bounds values : 0 OK\n"));
  }
}

INSTANTIATE_TEST_SUITE_P(GimbalBench, CollectiveOfBench,
                         ::testing::Values("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all",
                                           "gather", "scatter", "sendrecv", "barrier"),
                         [](const auto& test) { return test.param; });

TEST(GimbalBench, IsRightInRegisteredMemoryAndInDeterministicMode) {
  const CommandResult result =
      bench({"-b", "4K", "-e", "256K", "-f", "8", "-g", "2", "--memory", "registered", "--deterministic"});

  EXPECT_EQ(result.status, 0) << result.out << result.err;
}

TEST(GimbalBench, JoinsTheRanksOfALauncher) {
  const CommandResult result =
      run_command({binary("gimbal-run"), "-n", "2", "--no-prefix", binary("gimbal-bench"), "-b", "8", "-e", "8", "-n", "3"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("# nRanks 2 "));
  EXPECT_EQ(bench_rows(result.out).size(), 1u);
}

TEST(GimbalBench, RefusesAnotherNumberOfRanksThanTheLaunchers) {
  const CommandResult result =
      run_command({binary("gimbal-run"), "-n", "2", binary("gimbal-bench"), "-g", "3", "-b", "8", "-e", "8"});

  EXPECT_GT(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("-g: 3 ranks were asked for, but the launcher has started 2"));
}

TEST(GimbalBench, SaysNotApplicableInsteadOfWrongCountsWhenItDoesNotCheck) {
  const CommandResult result = bench({"-b", "8", "-e", "8", "-c", "0", "-g", "2"});

  ASSERT_EQ(bench_rows(result.out).size(), 1u);
  EXPECT_EQ(bench_rows(result.out)[0].out_of_place.wrong, "N/A");
}

TEST(GimbalBench, WritesItsResultsAsJsonWithoutTheEnvironment) {
  const std::string path = ::testing::TempDir() + "gimbal_bench_test." + std::to_string(getpid()) + ".json";

  const CommandResult result = bench({"-b", "8", "-e", "1K", "-f", "128", "-g", "2", "-J", path});
  const nlohmann::json report = nlohmann::json::parse(std::ifstream(path));
  unlink(path.c_str());

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(report["version"], 3);
  EXPECT_FALSE(report.contains("env"));
  EXPECT_EQ(report["devices"].size(), 2u);
  ASSERT_EQ(report["results"].size(), 2u);
  EXPECT_EQ(report["results"][1]["size"], 1024);
  EXPECT_EQ(report["results"][1]["in_place"]["nwrong"], 0);
  EXPECT_GT(report["results"][1]["out_of_place"]["per_iter"]["p99"], 0.0);
  EXPECT_EQ(report["out_of_bounds"]["count"], 0);
}

TEST(GimbalBench, PrintsOneJsonObjectPerRowWhenAsked) {
  const CommandResult result = bench({"-b", "8", "-e", "64", "-f", "8", "-g", "2", "--jsonl"});

  std::istringstream lines(result.out);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));

  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["collective"], "all_reduce");
  EXPECT_EQ(rows[1]["size"], 64);
}

}  // namespace
}  // namespace gimbal::test
