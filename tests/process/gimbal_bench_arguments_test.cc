// C48: sizes and names that gimbal-bench takes, and those that it refuses in one line that says what is allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/bench_output.h"
#include "tests/support/command.h"

namespace gimbal::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// One rank and as little work as can be.
CommandResult bench(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {binary("gimbal-bench"), "-n", "1", "-w", "0"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_command(arguments);
}

struct Refusal {
  std::vector<std::string> options;
  std::string error;
};

class RefusedOptions : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedOptions, AreOneLineThatNamesTheOptionItsValueAndWhatIsAllowed) {
  const CommandResult result = bench(GetParam().options);

  EXPECT_GT(result.status, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("gimbal-bench: " + GetParam().error));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    GimbalBench, RefusedOptions,
    ::testing::Values(
        Refusal{{"-b", "8", "-e", "4"}, "-e: \"4\" is not at least -b (8 bytes)"},
        Refusal{{"-b", "-1"}, "-b: \"-1\" is not a size"}, Refusal{{"-b", "12abc"}, "-b: \"12abc\" is not a size"},
        Refusal{{"-b", "99999999999999999999"}, "-b: \"99999999999999999999\" is not a size"},
        Refusal{{"-f", "1"}, "-f: \"1\" is not a whole number from 2"},
        Refusal{{"-f", "0"}, "-f: \"0\" is not a whole number from 2"}, Refusal{{"-i", "0"}, "-i: \"0\" is not a step"},
        Refusal{{"-n", "0"}, "-n: \"0\" is not a whole number from 1"},
        Refusal{{"-g", "0"}, "-g: \"0\" is not a whole number from 1"},
        Refusal{{"-d", "foo"}, "-d: \"foo\" is not a type: int8, uint8"},
        Refusal{{"-o", "foo"}, "-o: \"foo\" is not an operation: sum, prod"},
        Refusal{{"-o", "band", "-d", "float"}, "-o: \"band\" is not an operation of floating types"},
        Refusal{{"--collective", "foo"}, "--collective: \"foo\" is not a collective: all_reduce"},
        Refusal{{"--memory", "foo"}, "--memory: \"foo\" is not host, registered or cuda"},
        Refusal{{"-r", "foo"}, "-r: \"foo\" is not a whole number from 0"},
        Refusal{{"--nonsense"}, "The following argument was not expected: --nonsense"},
        Refusal{{"-b", "1P", "-e", "1P"}, "-e: 1125899906842624 bytes need 2.0 PiB for 1 ranks; this machine has"}));

TEST(GimbalBenchSizes, AreCutToWholeElementsAndShownSo) {
  const CommandResult result = bench({"-b", "9", "-e", "9", "-d", "float"});

  ASSERT_EQ(bench_rows(result.out).size(), 1u) << result.out << result.err;
  EXPECT_EQ(bench_rows(result.out)[0].bytes, 8u);
  EXPECT_EQ(bench_rows(result.out)[0].count, 2u);
}

TEST(GimbalBenchSizes, TakeUnitsInEitherCaseAndFractions) {
  const std::vector<std::pair<std::string, size_t>> sizes = {{"1k", 1024}, {"1K", 1024}, {"1.5M", 1'572'864}};
  for (const auto& [text, bytes] : sizes) {
    const CommandResult result = bench({"-b", text, "-e", text});

    ASSERT_EQ(bench_rows(result.out).size(), 1u) << text << result.err;
    EXPECT_EQ(bench_rows(result.out)[0].bytes, bytes) << text;
  }
}

TEST(GimbalBenchSizes, GoUpToTheLargestOne) {
  const std::vector<BenchRow> rows = bench_rows(bench({"-b", "1k", "-e", "1M", "-f", "2"}).out);

  ASSERT_EQ(rows.size(), 11u);
  EXPECT_EQ(rows.back().bytes, size_t{1} << 20);
}

TEST(GimbalBenchSizes, OfZeroAndOfOneRankHaveABandwidthOfZero) {
  for (const std::string ranks : {"1", "2", "3"}) {
    const CommandResult result = bench({"-b", "0", "-e", "0", "-g", ranks});

    EXPECT_EQ(result.status, 0) << result.err;
    ASSERT_EQ(bench_rows(result.out).size(), 1u);
    EXPECT_EQ(bench_rows(result.out)[0].out_of_place.busbw_gbps, 0);
    EXPECT_EQ(bench_rows(result.out)[0].in_place.algbw_gbps, 0);
  }
  const CommandResult alone = bench({"-b", "8", "-e", "1M", "-f", "8"});
  EXPECT_EQ(alone.status, 0);
  for (const BenchRow& row : bench_rows(alone.out)) EXPECT_EQ(row.out_of_place.busbw_gbps, 0);
  EXPECT_THAT(alone.out, HasSubstr("# Avg bus bandwidth    : 0\n"));
}

TEST(GimbalBench, PrintsItsHelpAndItsVersion) {
  EXPECT_THAT(bench({"--help"}).out, HasSubstr("--minbytes"));
  EXPECT_THAT(bench({"--version"}).out, StartsWith("gimbal-bench, libgimbal "));
}

}  // namespace
}  // namespace gimbal::test
