// What gimbal-plan simulate makes of a cluster: exact ways against shortened ones, shared rails, the shape of the figures.
#include "tools/gimbal_plan/scaling.h"

#include <gtest/gtest.h>

#include <string>

namespace gimbal {
namespace {

// GPUs on a switch of 100 GB/s each way, rails of 10 GB/s.
CostInputs gpu_node(Rank ranks, int32_t rails) {
  CostInputs inputs;
  inputs.links.fill({.latency_us = 1, .bandwidth_gbps = 100, .overhead_us = 0.5});
  inputs.links[static_cast<size_t>(LinkClass::kNetwork)] = {.latency_us = 3, .bandwidth_gbps = 10, .overhead_us = 0.5};
  inputs.memory = {.copy_gbps = 500, .cached_copy_gbps = 500, .reduce_gbps = 500, .cached_reduce_gbps = 500};
  inputs.cpus = ranks;
  inputs.rails = rails;
  inputs.ranks_per_node = ranks;
  inputs.place_of.assign(static_cast<size_t>(ranks), 0);
  inputs.link_of = {LinkClass::kNvlink};
  return inputs;
}

Figure figure_by(Method method, const Algorithm& algorithm, const Cluster& cluster, const Operation& operation) {
  const Result<Figure> figure = evaluate_by(method, algorithm, cluster, operation, 1);
  EXPECT_TRUE(figure.ok()) << algorithm.name << ": " << figure.status().message();
  return figure.ok() ? *figure : Figure();
}

TEST(PlanScaling, OneNodeStandsForAllWhereSchedulesTurn) {
  const Cluster cluster(gpu_node(4, 2), 6);
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.turns) continue;
    const Operation operation = {.collective = algorithm.collective, .bytes = 24 << 20};
    const Figure all = figure_by(Method::kSimulated, algorithm, cluster, operation);
    const Figure one = figure_by(Method::kOneStandsForAll, algorithm, cluster, operation);
    EXPECT_DOUBLE_EQ(one.time_us, all.time_us) << algorithm.name << " of " << collective_name(algorithm.collective);
    EXPECT_EQ(one.load.rail_bytes, all.load.rail_bytes) << algorithm.name;
    EXPECT_EQ(one.load.pair_bytes, all.load.pair_bytes) << algorithm.name;
  }
}

TEST(PlanScaling, NothingIsFasterThanItsBound) {
  for (const Rank ranks : {1, 3, 4}) {
    const Cluster cluster(gpu_node(ranks, 2), 5);
    for (const Algorithm& algorithm : algorithms()) {
      for (const uint64_t bytes : {uint64_t{1} << 10, uint64_t{24} << 20}) {
        const Operation operation = {.collective = algorithm.collective, .bytes = bytes, .fusion = Fusion::kNone};
        const Figure simulated = figure_by(Method::kSimulated, algorithm, cluster, operation);
        const Figure bound = figure_by(Method::kBound, algorithm, cluster, operation);
        EXPECT_LE(bound.time_us, simulated.time_us * (1 + 1e-12)) << algorithm.name << ", " << ranks << " ranks a node";
        EXPECT_GE(simulated.load.rail_bytes, bound.load.rail_bytes) << algorithm.name;
      }
    }
  }
}

TEST(PlanScaling, ADirectExchangeOfMuchComesNearItsBound) {
  const Cluster cluster(gpu_node(4, 2), 6);
  const Operation operation = {.collective = Collective::kAllReduce, .bytes = 240 << 20};
  for (const char* name : {"all_pairs", "hier_all_pairs"}) {
    const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, name);
    const double simulated = figure_by(Method::kSimulated, algorithm, cluster, operation).time_us;
    EXPECT_LT(simulated, 2 * figure_by(Method::kBound, algorithm, cluster, operation).time_us) << name;
  }
}

TEST(PlanScaling, TheHierarchyUsesAllRailsAndAFlatRingOne) {
  const Cluster cluster(gpu_node(4, 4), 8);
  const Operation operation = {.collective = Collective::kAllReduce, .bytes = 256 << 20, .pieces = 4};
  const Result<Figure> flat = evaluate(*find_algorithm(Collective::kAllReduce, "ring"), cluster, operation);
  const Result<Figure> hier = evaluate(*find_algorithm(Collective::kAllReduce, "hier_ring"), cluster, operation);
  ASSERT_TRUE(flat.ok() && hier.ok());
  EXPECT_GT(hier->bus_gbps, 2 * flat->bus_gbps);
  EXPECT_EQ(hier->load.rail_bytes, 2 * 7 * (uint64_t{256} << 20) / 4 / 8);
  EXPECT_EQ(flat->load.rail_bytes, 2 * 31 * (uint64_t{256} << 20) / 32);
}

TEST(PlanScaling, FewerRailsThanRanksAreShared) {
  const Operation operation = {.collective = Collective::kAllReduce, .bytes = 64 << 20, .pieces = 1};
  const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, "hier_halving_doubling");
  const Result<Figure> four = evaluate(algorithm, Cluster(gpu_node(4, 4), 4), operation);
  const Result<Figure> one = evaluate(algorithm, Cluster(gpu_node(4, 1), 4), operation);
  ASSERT_TRUE(four.ok() && one.ok());
  EXPECT_EQ(one->load.rail_bytes, 4 * four->load.rail_bytes);
  // 2 * 3/4 of the vector over one rail.
  EXPECT_GT(one->time_us, 1.5 * (64 << 20) / 10e3);
}

TEST(PlanScaling, TheBestOfSeveralPiecesIsTaken) {
  const Cluster cluster(gpu_node(4, 4), 4);
  const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, "hier_ring");
  Operation operation = {.collective = Collective::kAllReduce, .bytes = 256 << 20};
  const Result<Figure> best = evaluate(algorithm, cluster, operation);
  ASSERT_TRUE(best.ok());
  EXPECT_GT(best->pieces, 1U);
  operation.pieces = 1;
  EXPECT_LT(best->time_us, evaluate(algorithm, cluster, operation)->time_us);
}

TEST(PlanScaling, PointsDoubleUpToTheLast) {
  EXPECT_EQ(scaling_points(1), std::vector<Rank>({1}));
  EXPECT_EQ(scaling_points(8), std::vector<Rank>({1, 2, 4, 8}));
  EXPECT_EQ(scaling_points(11), std::vector<Rank>({1, 2, 4, 8, 11}));
}

}  // namespace
}  // namespace gimbal
