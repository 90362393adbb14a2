#include "runtime/launcher.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "tests/unit/runtime/no_launcher.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Pair = std::pair<const char*, const char*>;

// In the order of precedence.
constexpr Pair kPairs[] = {{"GIMBAL_RANK", "GIMBAL_SIZE"},
                           {"RANK", "WORLD_SIZE"},
                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                           {"PMI_RANK", "PMI_SIZE"},
                           {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                           {"SLURM_PROCID", "SLURM_NTASKS"}};
constexpr size_t kPairCount = std::size(kPairs);

TEST(Launcher, WithoutOneAProgramIsOneRankOfOne) {
  const NoLauncher environment;
  const Result<LaunchedAs> launched = read_launcher();
  ASSERT_TRUE(launched.ok());
  EXPECT_EQ(launched->rank, 0);
  EXPECT_EQ(launched->size, 1);
  EXPECT_EQ(launched->rank_variable, "");
  EXPECT_EQ(launched->conflict, "");
}

TEST(Launcher, EachPairAloneIsRead) {
  for (const auto& [rank_name, size_name] : kPairs) {
    NoLauncher environment;
    environment.set(rank_name, "2");
    environment.set(size_name, "5");
    const Result<LaunchedAs> launched = read_launcher();
    ASSERT_TRUE(launched.ok()) << rank_name << ": " << launched.status().message();
    EXPECT_EQ(launched->rank, 2) << rank_name;
    EXPECT_EQ(launched->size, 5) << size_name;
    EXPECT_EQ(launched->rank_variable, rank_name);
  }
}

TEST(Launcher, EarlierPairsWinOverLaterOnes) {
  for (size_t first = 0; first < kPairCount; ++first) {
    for (size_t second = first + 1; second < kPairCount; ++second) {
      NoLauncher environment;
      environment.set(kPairs[second].first, "1");
      environment.set(kPairs[second].second, "9");
      environment.set(kPairs[first].first, "3");  // Slurm's two pairs share it
      environment.set(kPairs[first].second, "4");
      const Result<LaunchedAs> launched = read_launcher();
      ASSERT_TRUE(launched.ok()) << launched.status().message();
      EXPECT_EQ(launched->rank, 3) << kPairs[first].first << " before " << kPairs[second].first;
      EXPECT_EQ(launched->size, 4) << kPairs[first].second << " before " << kPairs[second].second;
    }
  }
}

TEST(Launcher, ContradictionIsSaidWithBothVariables) {
  NoLauncher environment;
  environment.set("RANK", "1");
  environment.set("WORLD_SIZE", "2");
  environment.set("SLURM_PROCID", "0");
  environment.set("SLURM_NTASKS", "8");
  const Result<LaunchedAs> launched = read_launcher();
  ASSERT_TRUE(launched.ok());
  EXPECT_EQ(launched->rank, 1);
  EXPECT_EQ(launched->size, 2);
  EXPECT_THAT(launched->conflict, AllOf(HasSubstr("RANK"), HasSubstr("WORLD_SIZE"), HasSubstr("SLURM_PROCID"),
                                        HasSubstr("SLURM_NTASKS"), HasSubstr("1 of 2"), HasSubstr("0 of 8")));
}

TEST(Launcher, AgreeingLaunchersAreNoContradiction) {
  NoLauncher environment;
  for (const auto& [rank_name, size_name] : kPairs) {
    environment.set(rank_name, "1");
    environment.set(size_name, "2");
  }
  const Result<LaunchedAs> launched = read_launcher();
  ASSERT_TRUE(launched.ok());
  EXPECT_EQ(launched->conflict, "");
}

// A job step of two tasks inside an allocation of eight: the two sizes differ by design.
TEST(Launcher, SlurmStepInALargerJobIsNoContradiction) {
  NoLauncher environment;
  environment.set("SLURM_PROCID", "1");
  environment.set("SLURM_STEP_NUM_TASKS", "2");
  environment.set("SLURM_NTASKS", "8");
  const Result<LaunchedAs> launched = read_launcher();
  ASSERT_TRUE(launched.ok());
  EXPECT_EQ(launched->size, 2);
  EXPECT_EQ(launched->conflict, "");
}

TEST(Launcher, RankWithoutSizeIsAnErrorThatNamesBoth) {
  for (size_t pair = 0; pair < 4; ++pair) {
    for (const bool has_rank : {true, false}) {
      NoLauncher environment;
      environment.set(has_rank ? kPairs[pair].first : kPairs[pair].second, "1");
      const Result<LaunchedAs> launched = read_launcher();
      ASSERT_FALSE(launched.ok());
      EXPECT_EQ(launched.status().code(), Code::kInvalidArgument);
      EXPECT_THAT(launched.status().message(), AllOf(HasSubstr(kPairs[pair].first), HasSubstr(kPairs[pair].second)));
    }
  }
}

// salloc sets the size in a shell that is no task.
TEST(Launcher, SlurmSizeWithoutRankIsOneRankOfOne) {
  NoLauncher environment;
  environment.set("SLURM_NTASKS", "8");
  const Result<LaunchedAs> launched = read_launcher();
  ASSERT_TRUE(launched.ok());
  EXPECT_EQ(launched->size, 1);
}

TEST(Launcher, NonsenseIsAnErrorThatNamesVariableAndValue) {
  struct Nonsense {
    const char* rank;
    const char* size;
    const char* variable;
    const char* value;
  };
  for (const Nonsense& one : std::vector<Nonsense>{{"abc", "4", "RANK", "abc"},
                                                   {"0", "0", "WORLD_SIZE", "\"0\""},
                                                   {"5", "4", "RANK", "\"5\""},
                                                   {"4", "4", "RANK", "\"4\""},
                                                   {"-1", "4", "RANK", "-1"},
                                                   {"0", "100001", "WORLD_SIZE", "100001"},
                                                   {"1 ", "4", "RANK", "1 "},
                                                   {"0", "99999999999999999999", "WORLD_SIZE", "99999999999999999999"}}) {
    NoLauncher environment;
    environment.set("RANK", one.rank);
    environment.set("WORLD_SIZE", one.size);
    const Result<LaunchedAs> launched = read_launcher();
    ASSERT_FALSE(launched.ok()) << one.rank << " of " << one.size;
    EXPECT_EQ(launched.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(launched.status().message(), AllOf(HasSubstr(one.variable), HasSubstr(one.value)));
  }
}

}  // namespace
}  // namespace gimbal::test
