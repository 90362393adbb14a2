// Every registered algorithm, verified for many rank counts, roots, channels and windows. A new entry in the registry is tested
// by being there.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/verifier.h"

namespace gimbal {
namespace {

// Every count up to 17 shows all shapes of trees and folds; the larger ones are for what only size shows.
std::vector<Rank> rank_counts(Rank largest) {
  std::vector<Rank> counts;
  for (Rank n = 1; n <= 17; ++n) counts.push_back(n);
  for (const Rank n : {32, 33, 64}) {
    if (n <= largest) counts.push_back(n);
  }
  return counts;
}

std::vector<Rank> roots(const CollectiveSpec& spec) {
  const bool rooted = spec.collective == Collective::kBroadcast || spec.collective == Collective::kReduce ||
                      spec.collective == Collective::kGather || spec.collective == Collective::kScatter;
  if (!rooted || spec.nranks == 1) return {0};
  if (spec.nranks == 2) return {0, 1};
  return {0, 1, spec.nranks / 2, spec.nranks - 1};
}

class EveryAlgorithm : public ::testing::TestWithParam<Algorithm> {
 protected:
  // Verifies all rank counts and roots with these channels and pieces; several pieces up to 17 ranks only.
  static void verify_all(uint8_t channels, uint32_t pieces, Fusion fusion, const std::vector<VerifyOptions>& windows) {
    for (const Rank nranks : rank_counts(pieces == 1 ? 64 : 17)) {
      CollectiveSpec spec = {.collective = GetParam().collective, .nranks = nranks, .channels = channels, .pieces = pieces};
      for (const Rank root : roots(spec)) {
        spec.root = root;
        ASSERT_EQ(admits(GetParam(), spec), "");
        const std::vector<Schedule> schedules = build_all(GetParam(), spec, fusion);
        for (const VerifyOptions& window : windows) {
          const Result<Verification> verification = verify(spec, schedules, window);
          ASSERT_TRUE(verification.ok()) << nranks << " ranks, root " << root << ": " << verification.status().message();
          EXPECT_NE(verification->order, OrderClass::kDisagreed) << nranks << " ranks, root " << root;
        }
      }
    }
  }
};

TEST_P(EveryAlgorithm, IsRightForEveryWindow) {
  for (const uint8_t channels : {1, 2, 3}) verify_all(channels, 1, Fusion::kNone, {{1, 1}, {2, 1}, {8, 1}});
}

TEST_P(EveryAlgorithm, NeverBlocksWithRunsLongerThanTheWindow) { verify_all(1, 2, Fusion::kNone, {{1, 3}, {2, 8}}); }

TEST_P(EveryAlgorithm, IsRightInSeveralPieces) { verify_all(2, 3, Fusion::kNone, {{1, 1}, {8, 1}}); }

TEST_P(EveryAlgorithm, IsRightWhenFusedWithASlotMoreThanItsRuns) {
  const uint32_t runs = GetParam().window_runs;
  for (const uint8_t channels : {1, 2, 3}) verify_all(channels, 1, Fusion::kFused, {{runs + 1, 1}, {8, 1}});
  verify_all(1, 3, Fusion::kFused, {{runs + 1, 1}, {3 * runs + 1, 3}});
  verify_all(1, 9, Fusion::kFused, {{2 * runs + 1, 2}});
}

std::string test_name(const ::testing::TestParamInfo<Algorithm>& info) {
  return std::string(collective_name(info.param.collective)) + "_" + std::string(info.param.name);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithm, ::testing::ValuesIn(algorithms().begin(), algorithms().end()), test_name);

}  // namespace
}  // namespace gimbal
