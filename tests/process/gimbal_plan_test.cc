// gimbal-plan from outside: what it prints, draws and returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/command.h"

namespace gimbal::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

const std::string kNode = source_file("tests/fixtures/topology/nvswitch8.xml");

CommandResult plan(std::vector<std::string> arguments, int64_t timeout_ms = 60'000) {
  arguments.insert(arguments.begin(), binary("gimbal-plan"));
  CommandOptions options;
  options.timeout_ms = timeout_ms;
  return run_command(arguments, options);
}

Json plan_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const CommandResult result = plan(std::move(arguments));
  EXPECT_EQ(result.status, 0) << result.err;
  return Json::parse(result.out, nullptr, false);
}

TEST(GimbalPlan, PrintsTheStepsOfARank) {
  const CommandResult result = plan({"print", "--algorithm", "ring", "--ranks", "3", "--rank", "1", "--unfused"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(StartsWith("rank 1: 3 chunks, 1 channels, 8 steps\n"),
                                HasSubstr("channel 0  0: send chunk 0 input to 2 (raw)\n")));
}

TEST(GimbalPlan, PrintsFewRanksSideBySide) {
  const CommandResult result = plan({"print", "--algorithm", "tree", "--collective", "broadcast", "--ranks", "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(StartsWith("rank 0 "), HasSubstr("rank 1\n")));
}

TEST(GimbalPlan, PrintsJsonWithEveryStep) {
  const Json json = plan_json({"print", "--algorithm", "hier_ring", "--node-sizes", "2,1"});
  EXPECT_EQ(json["node_sizes"], Json({2, 1}));
  ASSERT_EQ(json["schedules"].size(), 3U);
  EXPECT_EQ(json["schedules"][0]["steps"][0]["op"], "send");
}

TEST(GimbalPlan, DrawsAScheduleAsSvgAndPng) {
  const fs::path folder = fs::path(testing::TempDir()) / ("gimbal-plan-" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::string svg = folder / "ring.svg";
  const CommandResult drawn = plan({"print", "--algorithm", "ring", "--svg", svg});
  EXPECT_EQ(drawn.status, 0) << drawn.err;
  std::ostringstream text;
  text << std::ifstream(svg).rdbuf();
  EXPECT_THAT(text.str(), AllOf(StartsWith("<svg "), HasSubstr("ring all_reduce over 4 ranks")));
  const CommandResult plot = plan({"simulate", "--node", kNode, "--nodes", "4", "--ranks-per-node", "2", "--svg", svg});
  EXPECT_EQ(plot.status, 0) << plot.err;
  text.str("");
  text << std::ifstream(svg).rdbuf();
  EXPECT_THAT(text.str(), AllOf(StartsWith("<svg "), HasSubstr("bus bandwidth"), HasSubstr("hier_double_tree")));
  fs::remove_all(folder);
}

TEST(GimbalPlan, VerifiesEveryAlgorithmOfACollective) {
  const Json json = plan_json({"verify", "--nodes", "3", "--ranks-per-node", "4"});
  EXPECT_GE(json["algorithms"].size(), 8U);
  for (const Json& entry : json["algorithms"]) {
    EXPECT_TRUE(entry["right"]) << entry;
    EXPECT_EQ(entry["order"] == "tree",
              std::set<std::string>({"halving_doubling", "hier_halving_doubling"}).contains(entry["algorithm"]))
        << entry;
  }
}

TEST(GimbalPlan, SaysWhichWindowIsTooSmallAndFails) {
  const CommandResult result = plan({"verify", "--algorithm", "ring", "--slots", "3", "--slices", "3"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("WRONG: deadlock with 3 slots and 3 slices"));
  EXPECT_EQ(result.err, "gimbal-plan: not right with this window: ring\n");
}

TEST(GimbalPlan, SimulatesAClusterFromOneNodeToMany) {
  const std::vector<std::string> arguments = {"simulate", "--node", kNode,        "--nodes", "12", "--ranks-per-node",
                                              "8",        "--rail", "50GB/s,2us", "--bytes", "64M"};
  const CommandResult text = plan(arguments);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(StartsWith("all_reduce of 64 MiB: 96 ranks on 12 machines, nvlink 450 GB/s, 8 rails of 50 GB/s"),
                              HasSubstr("Bus bandwidth in GB/s over the number of machines")));
  const Json json = plan_json(arguments);
  EXPECT_EQ(json["rails"], 8);
  EXPECT_EQ(json["figures"].size(), 9U * 5);  // algorithms at 1, 2, 4, 8 and 12 machines
  double ring = 0;
  double best = 0;
  for (const Json& figure : json["figures"]) {
    EXPECT_GT(figure["time_us"].get<double>(), 0) << figure;
    if (figure["nodes"] != 12) continue;
    best = std::max(best, figure["busbw_gbps"].get<double>());
    if (figure["algorithm"] == "ring") ring = figure["busbw_gbps"];
  }
  EXPECT_GT(best, 2 * ring);
}

TEST(GimbalPlan, SimulatesThisMachineWithoutAFile) {
  const CommandResult result = plan({"simulate", "--ranks", "2", "--bytes", "1M"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("all_reduce of 1 MiB: 2 ranks on 1 machine, "));
}

TEST(GimbalPlan, ExportsGoal) {
  const CommandResult result = plan({"goal", "--algorithm", "ring", "--ranks", "2", "--bytes", "1K"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(StartsWith("num_ranks 2\n"), HasSubstr("l1: send 512b to 1 tag 0\n")));
  EXPECT_EQ(plan_json({"goal", "--algorithm", "ring", "--ranks", "2", "--bytes", "1K"})["goal"], result.out);
}

TEST(GimbalPlan, RefusesWrongArgumentsInOneLine) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"dance"},
      {"print"},
      {"print", "--algorithm", "rong"},
      {"print", "--algorithm", "ring", "--ranks", "many"},
      {"print", "--algorithm", "ring", "--rank", "4"},
      {"print", "--algorithm", "ring", "--ranks", "100000"},
      {"verify", "--slots", "0"},
      {"simulate", "--rail", "fast"},
      {"simulate", "--rails", "0"},
      {"simulate", "--bytes", "0"},
      {"simulate", "--dtype", "quaternion"},
      {"simulate", "--node-sizes", "1,2"},
      {"goal"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const CommandResult result = plan(arguments);
    const std::string shown = testing::PrintToString(arguments);
    EXPECT_EQ(result.status, 2) << shown;
    EXPECT_EQ(result.out, "") << shown;
    EXPECT_THAT(result.err, StartsWith("gimbal-plan: ")) << shown;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(GimbalPlan, FailsInOneLineWhereAFileIsMissingOrADrawingTooLarge) {
  const std::vector<std::vector<std::string>> wrong = {
      {"simulate", "--node", "/nonexistent/node.xml"},
      {"print", "--algorithm", "ring", "--svg", "/nonexistent/ring.svg"},
      {"print", "--algorithm", "ring", "--ranks", "300", "--svg", "/dev/null"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const CommandResult result = plan(arguments);
    EXPECT_EQ(result.status, 1) << testing::PrintToString(arguments);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

// All algorithms at full size take about a minute of a busy CPU.
TEST(LongGimbalPlan, SimulatesTenThousandRanks) {
  const CommandResult result = plan({"simulate", "--node", kNode, "--nodes", "1250", "--ranks-per-node", "8", "--rail",
                                     "50GB/s,2us", "--bytes", "1G", "--json"},
                                    1'200'000);
  ASSERT_EQ(result.status, 0) << result.err;
  size_t at_full_size = 0;
  for (const Json& figure : Json::parse(result.out)["figures"]) {
    if (figure["ranks"] == 10'000) ++at_full_size;
  }
  EXPECT_EQ(at_full_size, 8U);
}

}  // namespace
}  // namespace gimbal::test
