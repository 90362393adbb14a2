// gimbal-topo explain and tune: what they accept, and what the report shows of an explanation.
#include "tools/gimbal_topo/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/gimbal_topo/tune.h"

namespace gimbal::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseSizes, GivesPowersOfTwoFromTheFirstAndTheLast) {
  const Result<std::vector<size_t>> sizes = parse_sizes("8..40");
  ASSERT_TRUE(sizes.ok());
  EXPECT_THAT(*sizes, ElementsAre(8U, 16U, 32U, 40U));
  const Result<std::vector<size_t>> one = parse_sizes("64K");
  ASSERT_TRUE(one.ok());
  EXPECT_THAT(*one, ElementsAre(65536U));
}

TEST(ParseSizes, RefusesNoneAndBackwards) {
  for (const char* text : {"", "0", "..", "8..", "..8", "16..8", "2T", "-1", "12abc", "99999999999999999999"}) {
    EXPECT_FALSE(parse_sizes(text).ok()) << text;
  }
}

TEST(CheckRequest, TakesOneRankPerAllowedCpuOfEveryMachine) {
  ExplainCommand command;
  EXPECT_EQ(check_request(command, 1).value().ranks, 2);
  EXPECT_EQ(check_request(command, 16).value().ranks, 16);
  command.nodes = "4";
  EXPECT_EQ(check_request(command, 16).value().ranks, 64);
  command.ranks = "3";
  EXPECT_THAT(check_request(command, 16).status().message(), HasSubstr("at most one node per rank"));
}

TEST(DefaultRankCounts, ArePowersOfTwoUpToTheCpusAndToEight) {
  EXPECT_THAT(default_rank_counts(1), ElementsAre(2, 4, 8));
  EXPECT_THAT(default_rank_counts(6), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(default_rank_counts(24), ElementsAre(2, 4, 8, 16, 24));
}

ExplainedSize explained(size_t bytes, const Way& way, double time_us) {
  Explanation explanation;
  explanation.how = "it is so";
  explanation.way = way;
  explanation.chosen = Option{way, time_us, {1, time_us - 1}, false};
  explanation.runner_up = Option{{"ring", Protocol::kSlots, 2, kSlotBytes}, 2 * time_us, {3, 4}, false};
  explanation.bus_gbps = 5;
  explanation.why = "because";
  return {bytes, explanation};
}

TEST(ExplainReport, ShowsChoiceCostAndRunnerUpAndWhyWhereTheChoiceChanges) {
  const Way flag = {kDirectAlgorithm, Protocol::kFlag, 1, kFlagBytes};
  const Way shots = {kDirectAlgorithm, Protocol::kTwoShots, 1, kChunkBytes};
  const std::vector<ExplainedSize> sizes = {explained(8, flag, 2), explained(64, flag, 3), explained(65536, shots, 40)};
  const std::string table = explain_table({}, "this machine", sizes);
  EXPECT_THAT(
      table,
      AllOf(HasSubstr("     64K  direct                 two_shots        1    256K        40.00     5.00  ring, x2.00"),
            HasSubstr("predicted 40.0 us, 5.00 GB/s bus bandwidth (by the model); next is ring at 2.00 times that; because")));
  const std::string reasons = table.substr(table.find("Why"));
  EXPECT_EQ(std::count(reasons.begin(), reasons.end(), '\n'), 3);  // the heading and two choices
  const nlohmann::json report = nlohmann::json::parse(explain_json({}, "this machine", sizes));
  EXPECT_EQ(report["sizes"][2]["runner_up"]["algorithm"], "ring");
  EXPECT_EQ(report["sizes"][0]["predicted"]["time_us"], 2);
}

}  // namespace
}  // namespace gimbal::test
