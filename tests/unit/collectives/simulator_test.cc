#include "collectives/simulator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "collectives/node_shape.h"

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

// Two nodes' NICs of the link's speed, which all their ranks share; within a node links are as fast.
SimulationInput with_nics(const NodeShape& shape) {
  SimulationInput input = uniform();
  const Rank nodes = shape.nodes();
  input.passage = [&shape, nodes](Rank from, Rank to) {
    const Rank a = shape.node_of(from);
    const Rank b = shape.node_of(to);
    return a == b ? Passage() : Passage{.sender_part = a, .receiver_part = nodes + b};
  };
  input.part_gbps.assign(2 * static_cast<size_t>(nodes), kLink.bandwidth_gbps);
  return input;
}

TEST(Simulator, MessagesThatShareANicFollowOneAnother) {
  const NodeShape shape = NodeShape::uniform(2, 2);
  const CollectiveSpec spec = {.nranks = 4, .nodes = &shape};
  const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, "hier_halving_doubling");
  const Result<Simulation> alone = simulate(algorithm, spec, Fusion::kNone, uniform());
  const Result<Simulation> shared = simulate(algorithm, spec, Fusion::kNone, with_nics(shape));
  ASSERT_TRUE(alone.ok() && shared.ok());
  // Slices of two chunks: one hop in the node, two between the nodes with one chunk each, one hop in the node.
  EXPECT_NEAR(alone->time_us, 4 * kHop + 2 * kWire, 1e-9);
  // The NIC carries the two chunks of both rails without a pause, instead of two hops side by side.
  EXPECT_NEAR(shared->time_us, alone->time_us - 2 * kHop + kHop + 3 * kWire, 1e-9);
}

TEST(Simulator, AnIncastFillsTheReceiversNic) {
  const NodeShape shape = NodeShape::uniform(5, 1);
  const CollectiveSpec spec = {.collective = Collective::kGather, .nranks = 5, .nodes = &shape};
  const Result<Simulation> simulation =
      simulate(*find_algorithm(Collective::kGather, "linear"), spec, Fusion::kNone, with_nics(shape));
  ASSERT_TRUE(simulation.ok());
  EXPECT_NEAR(simulation->time_us, kHop + 3 * kWire, 1e-9);
}

TEST(Simulator, CopyingAndAddingTakeTheCpusTime) {
  SimulationInput input = uniform();
  input.passage = [](Rank, Rank) { return Passage{.copy_in_gbps = 4, .copy_out_gbps = 8, .reduce_gbps = 16}; };
  const double chain = 3 * (kHop + kChunkBytes / 4e3);
  EXPECT_NEAR(run(Collective::kReduce, "chain", 4, Fusion::kNone, input).time_us, chain + 3 * kChunkBytes / 16e3, 1e-9);
  EXPECT_NEAR(run(Collective::kBroadcast, "chain", 4, Fusion::kNone, input).time_us, chain + 3 * kChunkBytes / 8e3, 1e-9);
  input.copy_gbps = 1;  // the root's own copy does not count: it is done before the last rank is
  EXPECT_NEAR(run(Collective::kBroadcast, "chain", 1, Fusion::kNone, input).time_us, kChunkBytes / 1e3, 1e-9);
}

// A rank that adds what two others send at once does so one after the other.
TEST(Simulator, OneCpuAddsOneMessageAtATime) {
  SimulationInput input = uniform();
  input.passage = [](Rank, Rank) { return Passage{.reduce_gbps = 1}; };
  const double two = run(Collective::kReduceScatter, "all_pairs", 2, Fusion::kNone, input).time_us;
  const CollectiveSpec spec = {.collective = Collective::kReduceScatter, .nranks = 2, .channels = 2};
  input.link = [](Rank, Rank) {
    LinkCost cost = kLink;
    cost.bandwidth_gbps *= 2;  // as fast as before on each of two channels
    return cost;
  };
  const Result<Simulation> channels =
      simulate(*find_algorithm(Collective::kReduceScatter, "all_pairs"), spec, Fusion::kNone, input);
  ASSERT_TRUE(channels.ok());
  EXPECT_NEAR(channels->time_us, two + kChunkBytes / 1e3, 1e-9);
}

bool is_the_same_turned(const Schedule& a, const Schedule& b, Rank turn, Rank nranks) {
  if (a.steps.size() != b.steps.size()) return false;
  const auto turned = [&](Rank rank) { return rank == kNoRank ? kNoRank : (rank + turn) % nranks; };
  for (size_t i = 0; i < a.steps.size(); ++i) {
    Step step = a.steps[i];
    step.peer = turned(step.peer);
    step.forward_to = turned(step.forward_to);
    step.chunk = b.steps[i].chunk;
    if (std::memcmp(&step, &b.steps[i], sizeof(Step)) != 0) return false;
  }
  return true;
}

// Algorithm::turns says the truth, and is said where it is true.
TEST(Turns, IsWhatTheSchedulesOfAllRanksDo) {
  for (const Algorithm& algorithm : algorithms()) {
    const bool is_rooted = algorithm.collective == Collective::kBroadcast || algorithm.collective == Collective::kReduce ||
                           algorithm.collective == Collective::kGather || algorithm.collective == Collective::kScatter;
    bool all_turn = !is_rooted;
    for (const auto& [nodes, ranks] : {std::pair<Rank, Rank>{3, 1}, {5, 2}, {6, 3}}) {
      const NodeShape shape = NodeShape::uniform(nodes, ranks);
      for (const uint8_t channels : {1, 2}) {
        const CollectiveSpec spec = {
            .collective = algorithm.collective, .nranks = shape.nranks(), .channels = channels, .nodes = &shape};
        const std::vector<Schedule> schedules = build_all(algorithm, spec, Fusion::kFused);
        for (Rank rank = ranks; rank < shape.nranks(); ++rank) {
          all_turn = all_turn && is_the_same_turned(schedules[static_cast<size_t>(rank % ranks)],
                                                    schedules[static_cast<size_t>(rank)], rank - rank % ranks, shape.nranks());
        }
      }
    }
    EXPECT_EQ(algorithm.turns, all_turn) << algorithm.name << " of " << collective_name(algorithm.collective);
  }
}

TEST(Turns, OneNodeStandsForAllToTheBit) {
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.turns) continue;
    for (const Fusion fusion : {Fusion::kNone, Fusion::kFused}) {
      const NodeShape shape = NodeShape::uniform(5, 3);
      const CollectiveSpec spec = {
          .collective = algorithm.collective, .nranks = shape.nranks(), .channels = 2, .pieces = 2, .nodes = &shape};
      SimulationInput input = with_nics(shape);
      input.slice_bytes = 1000;
      const Result<Simulation> all = simulate(algorithm, spec, fusion, input);
      input.period = 3;
      const Result<Simulation> one = simulate(algorithm, spec, fusion, input);
      ASSERT_TRUE(all.ok() && one.ok());
      EXPECT_EQ(one->time_us, all->time_us) << algorithm.name << " of " << collective_name(algorithm.collective);
      EXPECT_EQ(one->steps * 5, all->steps) << algorithm.name;
    }
  }
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
