#include "collectives/tuner.h"

#include <gtest/gtest.h>

#include "collectives/algorithm.h"

namespace gimbal {
namespace {

constexpr Way kDirect = {kDirectAlgorithm, Protocol::kTwoShots, 1, 0};
constexpr Way kRing = {"ring", Protocol::kSlots, 2, 0};
constexpr Way kTree = {"double_tree", Protocol::kSlots, 2, 0};

SizeOptions at(size_t bytes, std::vector<Option> options) { return {bytes, std::move(options), 0}; }

std::vector<Way> chosen(std::vector<SizeOptions> sizes) {
  choose_ways(sizes);
  std::vector<Way> ways;
  for (const SizeOptions& size : sizes) ways.push_back(size.options[size.chosen].way);
  return ways;
}

TEST(ChooseWays, TakesTheLowerEnvelope) {
  EXPECT_EQ(chosen({at(8, {{kTree, 1}, {kRing, 5}}), at(16, {{kTree, 2}, {kRing, 5}}), at(32, {{kTree, 10}, {kRing, 6}}),
                    at(64, {{kTree, 20}, {kRing, 7}})}),
            (std::vector<Way>{kTree, kTree, kRing, kRing}));
}

TEST(ChooseWays, DoesNotAlternateBetweenWaysThatCostTheSame) {
  EXPECT_EQ(chosen({at(8, {{kTree, 100}, {kRing, 101}}), at(16, {{kTree, 101}, {kRing, 100}}),
                    at(32, {{kTree, 100}, {kRing, 101}}), at(64, {{kTree, 101}, {kRing, 100}})}),
            (std::vector<Way>{kTree, kTree, kTree, kTree}));
}

TEST(ChooseWays, LeavesAWayForOneSizeOnlyWhereThatSavesMoreThanTwoSwitches) {
  const auto with_dip = [](double ring) {
    return chosen(
        {at(8, {{kTree, 100}, {kRing, 200}}), at(16, {{kTree, 100}, {kRing, ring}}), at(32, {{kTree, 100}, {kRing, 200}})});
  };
  EXPECT_EQ(with_dip(95)[1], kTree);
  EXPECT_EQ(with_dip(90)[1], kRing);
}

TEST(ChooseWays, AWayThatEndsIsLeftWithoutPenalty) {
  // Only direct goes on; ring would be 1 % better before.
  EXPECT_EQ(chosen({at(8, {{kRing, 99}, {kDirect, 100}}), at(16, {{kDirect, 100}})}), (std::vector<Way>{kRing, kDirect}));
}

TEST(Corrections, AreInterpolatedBetweenMeasuredSizesAndHeldBeyond) {
  Corrections corrections;
  corrections.add({Collective::kAllReduce, "ring", Protocol::kSlots, 1024, 1});
  corrections.add({Collective::kAllReduce, "ring", Protocol::kSlots, 4096, 3});
  EXPECT_EQ(corrections.factor(kRing, Collective::kAllReduce, 8), 1);
  EXPECT_NEAR(corrections.factor(kRing, Collective::kAllReduce, 2048), 2, 1e-12);
  EXPECT_EQ(corrections.factor(kRing, Collective::kAllReduce, size_t{1} << 30), 3);
  EXPECT_EQ(corrections.factor(kTree, Collective::kAllReduce, 2048), 1);
  EXPECT_EQ(corrections.factor(kRing, Collective::kAllGather, 2048), 1);
}

CostInputs one_machine(Rank ranks) {
  CostInputs inputs;
  inputs.links[static_cast<size_t>(LinkClass::kCache)] = {0.1, 25, 0.05};
  inputs.cpus = ranks;
  inputs.ranks_per_node = ranks;
  inputs.place_of.assign(static_cast<size_t>(ranks), 0);
  return inputs;
}

CostInputs machines(Rank ranks_per_node) {
  CostInputs inputs = one_machine(ranks_per_node);
  inputs.links[static_cast<size_t>(LinkClass::kNetwork)] = {20, 1.25, 5};
  return inputs;
}

TEST(Tuner, OnOneMachineDirectIsCheapestWhereAllRanksShareTheWork) {
  const Tuner tuner(CostModel(one_machine(4), 4));
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                      Collective::kBroadcast, Collective::kAllToAll}) {
    for (const size_t bytes : {size_t{8}, size_t{4096}, size_t{65536}, size_t{1} << 26}) {
      EXPECT_EQ(tuner.options(collective, bytes, DType::kFloat32).options.front().way.algorithm, kDirectAlgorithm)
          << collective_name(collective) << " of " << bytes;
    }
  }
}

TEST(Tuner, BetweenMachinesDirectIsNoWayAndFewHopsWinWhileSmall) {
  const Tuner tuner(CostModel(machines(1), 16));
  const SizeOptions small = tuner.options(Collective::kAllReduce, 64, DType::kFloat32);
  ASSERT_EQ(small.options.size(), algorithms_for(Collective::kAllReduce).size());
  for (const Option& option : small.options) EXPECT_NE(option.way.algorithm, kDirectAlgorithm);
  EXPECT_NE(small.options.front().way.algorithm, "ring");
}

TEST(Tuner, AMeasuredFactorChangesTheChoiceWhereItWasMeasured) {
  Corrections corrections;
  for (const Protocol protocol : {Protocol::kOneShot, Protocol::kTwoShots}) {
    corrections.add({Collective::kAllReduce, "direct", protocol, size_t{1} << 20, 1});
    corrections.add({Collective::kAllReduce, "direct", protocol, size_t{1} << 22, 100});
  }
  const Tuner tuner(CostModel(one_machine(4), 4), corrections);
  const std::vector<TableRow> rows = rows_of(tuner.table(Collective::kAllReduce, DType::kFloat32));
  EXPECT_EQ(find_row(rows, size_t{1} << 20)->algorithm, kDirectAlgorithm);
  EXPECT_NE(find_row(rows, size_t{1} << 24)->algorithm, kDirectAlgorithm);
}

TEST(TableRows, BeginHalfwayBetweenSizesWhereTheWayChanges) {
  std::vector<SizeOptions> sizes = {at(1024, {{kTree, 1}}), at(4096, {{kTree, 1}}), at(16384, {{kRing, 1}})};
  const std::vector<TableRow> rows = rows_of(sizes);
  EXPECT_EQ(rows, (std::vector<TableRow>{{0, kTree}, {8192, kRing}}));
  EXPECT_EQ(*find_row(rows, 8191), kTree);
  EXPECT_EQ(*find_row(rows, 8192), kRing);
  EXPECT_EQ(*find_row(rows, SIZE_MAX), kRing);
}

TEST(TableRows, OfAFlagEndWhereFlagsEnd) {
  constexpr Way kFlag = {kDirectAlgorithm, Protocol::kFlag, 1, 0};
  const std::vector<TableRow> rows = rows_of({at(4096, {{kFlag, 1}}), at(8192, {{kDirect, 1}})});
  EXPECT_EQ(*find_row(rows, kFlagBytes), kFlag);
  EXPECT_EQ(*find_row(rows, kFlagBytes + 1), kDirect);
}

TEST(Tuner, OptionsComeCheapestFirst) {
  const Tuner tuner(CostModel(one_machine(8), 8));
  const SizeOptions size = tuner.options(Collective::kAllReduce, 65536, DType::kFloat32);
  ASSERT_GT(size.options.size(), 4U);
  for (size_t i = 1; i < size.options.size(); ++i) EXPECT_LE(size.options[i - 1].time_us, size.options[i].time_us);
}

}  // namespace
}  // namespace gimbal
