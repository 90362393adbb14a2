#include "collectives/cost.h"

#include <gtest/gtest.h>

#include "collectives/direct_steps.h"
#include "collectives/verifier.h"

namespace gimbal {
namespace {

// Two CPUs under one cache that is larger than any vector here; round rates.
CostInputs shared_memory(Rank ranks, double cpus) {
  CostInputs inputs;
  inputs.links[static_cast<size_t>(LinkClass::kCache)] = {0.1, 20, 0};
  inputs.memory = {.copy_gbps = 10, .cached_copy_gbps = 40, .reduce_gbps = 20, .cached_reduce_gbps = 100, .total_gbps = 0};
  inputs.cache_bytes = uint64_t{1} << 40;
  inputs.cpus = cpus;
  inputs.handover_us = 2;
  inputs.ranks_per_node = ranks;
  inputs.place_of.assign(static_cast<size_t>(ranks), 0);
  return inputs;
}

CostInputs network(Rank ranks_per_node, int32_t rails) {
  CostInputs inputs = shared_memory(ranks_per_node, ranks_per_node);
  inputs.links[static_cast<size_t>(LinkClass::kNetwork)] = {5, 10, 0};
  inputs.rails = rails;
  return inputs;
}

double time_us(const CostInputs& inputs, Rank nranks, const Way& way, Collective collective, size_t bytes) {
  const Result<Cost> cost = CostModel(inputs, nranks).cost(way, collective, bytes, DType::kFloat32);
  EXPECT_TRUE(cost.ok()) << cost.status().message();
  return cost.ok() ? cost->time_us() : 0;
}

constexpr Way kOneShot = {kDirectAlgorithm, Protocol::kOneShot, 1, 0};
constexpr Way kTwoShots = {kDirectAlgorithm, Protocol::kTwoShots, 1, 0};
constexpr Way kRing = {"ring", Protocol::kSlots, 1, 0};
constexpr size_t kBytes = 4'000'000;

TEST(Cost, OneShotOfAPairStagesOnceAndReadsThePeerOnce) {
  // 4 MB staged at 40 GB/s, 4 MB added at the link's 20 GB/s, one flag.
  EXPECT_NEAR(time_us(shared_memory(2, 2), 2, kOneShot, Collective::kAllReduce, kBytes), 100 + 200 + 0.1, 0.01);
}

TEST(Cost, AStagedChunkIsChargedOnceHoweverManyReadIt) {
  // Staged once, read from three peers.
  EXPECT_NEAR(time_us(shared_memory(4, 4), 4, kOneShot, Collective::kAllReduce, kBytes), 100 + 3 * 200 + 0.1, 0.01);
}

TEST(Cost, TwoShotsOfFourRanksAddAQuarterEach) {
  // Three quarters staged, the own quarter of three peers added, staged as result, three quarters read.
  const double staged = 75 + 25;
  const double read = 150 + 150;
  EXPECT_NEAR(time_us(shared_memory(4, 4), 4, kTwoShots, Collective::kAllReduce, kBytes), staged + read + 0.2, 0.01);
}

TEST(Cost, RanksThatShareCpusShareTheirTimeAndWaitForTheirTurn) {
  const double alone = time_us(shared_memory(4, 4), 4, kTwoShots, Collective::kAllReduce, kBytes) - 0.2;
  // 4 ranks on 2 CPUs: twice the work for each, and a hand-over for each of two ranks before either message.
  EXPECT_NEAR(time_us(shared_memory(4, 2), 4, kTwoShots, Collective::kAllReduce, kBytes), 2 * alone + 2 * (0.1 + 2 * 2), 0.01);
}

TEST(Cost, WhatDoesNotFitIntoTheCacheCostsMemorysRate) {
  CostInputs inputs = shared_memory(2, 2);
  inputs.cache_bytes = 0;
  // 4 MB staged at 10 GB/s, added at 20.
  EXPECT_NEAR(time_us(inputs, 2, kOneShot, Collective::kAllReduce, kBytes), 400 + 200 + 0.1, 0.01);
}

TEST(Cost, MemoryOfAllCpusTogetherIsABound) {
  CostInputs inputs = shared_memory(2, 2);
  inputs.cache_bytes = 0;
  inputs.memory.total_gbps = 5;
  // Both stage and read: 16 MB.
  EXPECT_NEAR(time_us(inputs, 2, kOneShot, Collective::kAllReduce, kBytes), 3200 + 0.1, 0.01);
}

TEST(Cost, BetweenMachinesTheWireCountsAndOnlyAddingIsWork) {
  // 2 machines of one rank: half the vector each way, twice, at 10 GB/s, the second behind the first slice of the first; half
  // of it added at 100 GB/s.
  EXPECT_NEAR(time_us(network(1, 1), 2, kRing, Collective::kAllReduce, kBytes), 5 + 2 * 200 + 20, 0.01);
}

TEST(Cost, ARailIsNoFasterThanAllThatLeavesByIt) {
  const Way all_pairs = {"all_pairs", Protocol::kSlots, 1, 0};
  const double one_rail = time_us(network(4, 1), 8, all_pairs, Collective::kAllToAll, kBytes);
  const double four_rails = time_us(network(4, 4), 8, all_pairs, Collective::kAllToAll, kBytes);
  // Four ranks send 4 blocks each to the other machine.
  EXPECT_GE(one_rail, 16 * 400);
  EXPECT_LT(four_rails, one_rail / 2);
}

TEST(Cost, AHierarchyKeepsMostBytesInsideTheMachine) {
  const CostInputs inputs = network(4, 1);
  const Way flat = {"all_pairs", Protocol::kSlots, 1, 0};
  const Way hierarchical = {"hier_all_pairs", Protocol::kSlots, 1, 0};
  const double flat_us = time_us(inputs, 8, flat, Collective::kAllReduce, kBytes);
  EXPECT_LT(time_us(inputs, 8, hierarchical, Collective::kAllReduce, kBytes), 0.6 * flat_us);
}

TEST(Cost, PartialsOfSmallTypesWeighMoreInSlotsAndTheSameInStages) {
  const CostModel model(shared_memory(4, 4), 4);
  const auto at = [&](const Way& way, DType dtype) {
    const Result<Cost> cost = model.cost(way, Collective::kAllReduce, kBytes, dtype);
    return cost.ok() ? cost->time_us() : -1;
  };
  EXPECT_GT(at(kRing, DType::kBfloat16), 1.2 * at(kRing, DType::kFloat32));
  EXPECT_NEAR(at(kTwoShots, DType::kBfloat16), at(kTwoShots, DType::kFloat32), 1e-6);
}

TEST(Cost, RefusesAWayThatDoesNotExistAndSaysWhich) {
  const CostModel model(shared_memory(4, 4), 4);
  const Way flag = {kDirectAlgorithm, Protocol::kFlag, 1, 0};
  EXPECT_EQ(model.cost(flag, Collective::kAllReduce, kFlagBytes + 1, DType::kFloat32).status().message(),
            "direct, one flag for all_reduce does not exist for 4097 bytes");
  EXPECT_EQ(model.cost({"star", Protocol::kSlots, 1, 0}, Collective::kAllReduce, 8, DType::kFloat32).status().code(),
            Code::kUnsupported);
}

TEST(Cost, DoesNotWalkThroughSchedulesWithoutEnd) {
  const CostModel model(network(1, 1), 4096);
  EXPECT_EQ(model.cost(kRing, Collective::kAllReduce, 8, DType::kFloat32).status().code(), Code::kUnsupported);
}

TEST(Cost, BusBandwidthIsThatOfTheBenchmarks) {
  EXPECT_NEAR(bus_bandwidth_gbps(Collective::kAllReduce, 4, 1'000'000, 100), 15, 1e-9);
  EXPECT_NEAR(bus_bandwidth_gbps(Collective::kAllGather, 4, 1'000'000, 100), 30, 1e-9);
  EXPECT_NEAR(bus_bandwidth_gbps(Collective::kBroadcast, 4, 1'000'000, 100), 10, 1e-9);
}

TEST(DirectSteps, AreRightForEveryCollectiveProtocolAndRoot) {
  for (int value = 0; value < kCollectiveCount; ++value) {
    const auto collective = static_cast<Collective>(value);
    if (collective == Collective::kBarrier) continue;  // the steps of an all_reduce
    for (const Protocol protocol : {Protocol::kFlag, Protocol::kOneShot, Protocol::kTwoShots}) {
      const Algorithm* steps = direct_steps(collective, protocol);
      ASSERT_EQ(steps != nullptr, direct_serves(collective, protocol, 8)) << collective_name(collective);
      if (steps == nullptr) continue;
      for (Rank nranks = 1; nranks <= 9; ++nranks) {
        const CollectiveSpec spec = {.collective = collective, .nranks = nranks, .root = nranks / 2};
        const Result<Verification> verification = verify(spec, build_all(*steps, spec, Fusion::kNone));
        EXPECT_TRUE(verification.ok()) << collective_name(collective) << ": " << verification.status().message();
      }
    }
  }
}

}  // namespace
}  // namespace gimbal
