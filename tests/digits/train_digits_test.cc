// The trainer as its users start it: alone, under gimbal-run, and with what must not go unnoticed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace gimbal::test {
namespace {

using testing::HasSubstr;

class TrainDigits : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(json_path_); }

  // ranks 0: without a launcher.
  CommandResult train(int32_t ranks, const std::vector<std::string>& options) const {
    std::vector<std::string> command;
    if (ranks > 0) command = {binary("gimbal-run"), "-n", std::to_string(ranks), "--"};
    command.push_back(binary("train_digits"));
    command.insert(command.end(), options.begin(), options.end());
    return run_command(command);
  }

  // The report of a run that must succeed.
  nlohmann::json report(int32_t ranks, std::vector<std::string> options) const {
    options.insert(options.end(), {"--json", json_path_.string()});
    const CommandResult result = train(ranks, options);
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    return nlohmann::json::parse(std::ifstream(json_path_));
  }

  std::filesystem::path json_path_ =
      std::filesystem::path(testing::TempDir()) / ("train_digits_" + std::to_string(getpid()) + ".json");
};

TEST_F(TrainDigits, AloneReachesTheAccuracy) {
  const nlohmann::json alone = report(0, {"--epochs", "40"});
  EXPECT_EQ(alone["ranks"], 1);
  EXPECT_GE(alone["accuracy"], 0.95);
}

TEST_F(TrainDigits, FourRanksReachTheAccuracyWithEqualParameters) {
  const nlohmann::json four = report(4, {"--epochs", "40"});
  EXPECT_EQ(four["ranks"], 4);
  EXPECT_GE(four["accuracy"], 0.95);
  EXPECT_TRUE(four["parameters_equal"]);
}

// 3 ranks: every slice of a batch has another length, so the mean is weighted.
TEST_F(TrainDigits, InDoubleTheFinalLossDoesNotDependOnTheNumberOfRanks) {
  const std::vector<std::string> options = {"--epochs", "30", "--dtype", "double"};
  const double alone = report(1, options)["final_loss"];
  for (const int32_t ranks : {2, 3, 4}) {
    EXPECT_NEAR(report(ranks, options)["final_loss"].get<double>() / alone, 1, 1e-9) << ranks << " ranks";
  }
}

TEST_F(TrainDigits, InFloatTheGradientOfOneStepDoesNotDependOnTheNumberOfRanks) {
  for (const int32_t ranks : {1, 2, 3, 4}) {
    EXPECT_LE(report(ranks, {"--epochs", "1", "--check-gradient"})["gradient_difference"], 1e-6) << ranks << " ranks";
  }
}

TEST_F(TrainDigits, MoreRanksThanExamplesOfABatchStillAgree) {
  EXPECT_TRUE(report(3, {"--epochs", "1", "--batch", "2", "--hidden", "8"})["parameters_equal"]);
}

TEST_F(TrainDigits, RanksThatBeganWithOtherParametersAreFound) {
  const CommandResult result =
      run_command({binary("gimbal-run"), "-n", "2", "--", "sh", "-c", binary("train_digits") + " --epochs 1 --seed $RANK"});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("DIFFERENT ON SOME RANK"));
}

TEST_F(TrainDigits, AFileThatIsNotTheDigitsIsNamed) {
  const CommandResult result = train(0, {"--data", "/nowhere/digits.csv"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("/nowhere/digits.csv"));
}

TEST_F(TrainDigits, AnErrorOfGimbalIsPrintedWithItsName) {
  const CommandResult result =
      run_command({binary("train_digits")}, {.environment = {{"RANK", "5"}, {"WORLD_SIZE", "4"}}, .input = ""});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("train_digits: GIMBAL_INVALID_ARGUMENT: "));
}

}  // namespace
}  // namespace gimbal::test
