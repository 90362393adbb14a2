#include "collectives/simulator.h"

#include <gtest/gtest.h>

namespace gimbal {
namespace {

constexpr LinkCost kLink = {.latency_us = 3, .bandwidth_gbps = 2, .overhead_us = 0.5};
constexpr size_t kChunkBytes = 64'000;
constexpr double kWire = kChunkBytes / 2e3;  // us on the link
constexpr double kHop = kLink.latency_us + kWire + 2 * kLink.overhead_us;

SimulationInput uniform() {
  return {.link = [](Rank, Rank) { return kLink; }, .chunk_bytes = [](uint32_t) { return kChunkBytes; }};
}

Simulation run(Collective collective, const char* name, Rank nranks, Fusion fusion, const SimulationInput& input,
               uint32_t pieces = 1) {
  const CollectiveSpec spec = {.collective = collective, .nranks = nranks, .pieces = pieces};
  Result<Simulation> simulation = simulate(*find_algorithm(collective, name), spec, fusion, input);
  EXPECT_TRUE(simulation.ok()) << simulation.status().message();
  return simulation.ok() ? *simulation : Simulation();
}

TEST(Simulator, RingTakesTheClosedForm) {
  for (const Rank n : {2, 3, 8, 31}) {
    const Simulation simulation = run(Collective::kAllReduce, "ring", n, Fusion::kNone, uniform());
    EXPECT_NEAR(simulation.time_us, 2 * (n - 1) * kHop, 1e-9 * simulation.time_us) << n << " ranks";
  }
}

TEST(Simulator, RingLoadsEveryLinkWithTheSameBytes) {
  const Rank n = 8;
  const Simulation simulation = run(Collective::kAllReduce, "ring", n, Fusion::kNone, uniform());
  ASSERT_EQ(simulation.links.size(), 8U);
  for (const LinkLoad& link : simulation.links) {
    EXPECT_EQ(link.to, (link.from + 1) % n);
    EXPECT_EQ(link.bytes, 2 * (n - 1) * kChunkBytes);
    EXPECT_EQ(link.messages, 14U);
  }
}

TEST(Simulator, HalvingDoublingTakesLogarithmicallyManyHops) {
  const Simulation simulation = run(Collective::kAllReduce, "halving_doubling", 16, Fusion::kNone, uniform());
  // 8, 4, 2 and 1 of 16 parts, there and back.
  EXPECT_NEAR(simulation.time_us, 2 * (4 * (kHop - kWire) + 15 * kWire), 1e-6);
}

TEST(Simulator, PartialsWeighMoreThanElementsOnTheWire) {
  SimulationInput input = uniform();
  input.partial_ratio = 2;
  const Simulation simulation = run(Collective::kReduce, "chain", 4, Fusion::kNone, input);
  // The first hop carries elements, the other two partials.
  EXPECT_NEAR(simulation.time_us, 3 * kHop + 2 * kWire, 1e-9);
}

TEST(Simulator, PiecesOfAChainFollowOneAnother) {
  const uint32_t pieces = 10;
  const Simulation simulation = run(Collective::kBroadcast, "chain", 5, Fusion::kNone, uniform(), pieces);
  // The last piece leaves the root after all others, then takes four hops.
  EXPECT_NEAR(simulation.time_us, 4 * kHop + (pieces - 1) * (kWire + kLink.overhead_us), 1e-6);
}

TEST(Simulator, AFusedChainForwardsWhileItReceives) {
  SimulationInput input = uniform();
  input.slice_bytes = kChunkBytes / 16;
  const Simulation simulation = run(Collective::kBroadcast, "chain", 5, Fusion::kFused, input);
  // Every rank adds latency, overheads and one slice; the whole run passes once.
  EXPECT_NEAR(simulation.time_us, 4 * (kHop - kWire) + 3 * kWire / 16 + kWire, 1e-6);
}

TEST(Simulator, ChannelsShareALink) {
  CollectiveSpec spec = {.collective = Collective::kBroadcast, .nranks = 2, .channels = 2};
  const Result<Simulation> simulation =
      simulate(*find_algorithm(Collective::kBroadcast, "chain"), spec, Fusion::kNone, uniform());
  ASSERT_TRUE(simulation.ok());
  EXPECT_NEAR(simulation->time_us, kHop + kWire, 1e-9);  // two chunks at half the bandwidth each
}

TEST(Simulator, DoubleTreeInPiecesOvertakesTheRingWhenLatencyCounts) {
  const Rank n = 64;
  SimulationInput input = uniform();
  input.chunk_bytes = [](uint32_t) { return size_t{1000}; };
  const double ring = run(Collective::kAllReduce, "ring", n, Fusion::kNone, input).time_us;
  const double tree = run(Collective::kAllReduce, "double_tree", n, Fusion::kNone, input, 32).time_us;  // the same 64 chunks
  EXPECT_LT(tree, ring / 2);
}

TEST(Simulator, RefusesWhatTheAlgorithmDoesNotAdmit) {
  const CollectiveSpec spec = {.collective = Collective::kBroadcast, .nranks = 4, .root = 4};
  const Result<Simulation> simulation =
      simulate(*find_algorithm(Collective::kBroadcast, "chain"), spec, Fusion::kNone, uniform());
  EXPECT_EQ(simulation.status().code(), Code::kUnsupported);
  EXPECT_EQ(simulation.status().message(), "root is 4; allowed: 0 to 3");
}

}  // namespace
}  // namespace gimbal
