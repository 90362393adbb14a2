#include "topology/cost_inputs.h"

#include <gtest/gtest.h>

#include "tests/support/folders.h"
#include "topology/load.h"

namespace gimbal {
namespace {

TopologyGraph fixture(const std::string& name) {
  Result<TopologyGraph> graph = load_topology_file(test::source_file("tests/fixtures/topology/" + name));
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(graph).value() : TopologyGraph();
}

CostInputs inputs_of(const std::string& name, const Placement& placement) {
  Result<CostInputs> inputs = cost_inputs(fixture(name), placement);
  EXPECT_TRUE(inputs.ok()) << inputs.status().message();
  return inputs.ok() ? std::move(inputs).value() : CostInputs();
}

TEST(CostInputs, RanksTakeOneCpuOfEveryCoreFirst) {
  // 2 packages of 2 caches of 2 cores of 2 CPUs: the first 8 ranks fill the cores in order.
  const CostInputs inputs = inputs_of("two_socket.json", {.ranks = 8});
  EXPECT_EQ(inputs.places, 4U);
  EXPECT_EQ(inputs.place_of, (std::vector<int32_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(inputs.cpus, 16);
  EXPECT_EQ(link_class(inputs, 0, 1), LinkClass::kCache);
  EXPECT_EQ(link_class(inputs, 0, 2), LinkClass::kNuma);
  EXPECT_EQ(link_class(inputs, 0, 7), LinkClass::kSocket);
  EXPECT_EQ(inputs.cache_bytes, uint64_t{4} * 32 << 20);
}

TEST(CostInputs, MoreRanksThanCpusBeginAgain) {
  const CostInputs inputs = inputs_of("two_socket.json", {.ranks = 18});
  EXPECT_EQ(inputs.place_of[16], inputs.place_of[0]);
  EXPECT_EQ(inputs.cpus, 16);
}

TEST(CostInputs, AQuotaBoundsTheCpus) {
  TopologyGraph graph = fixture("two_socket.json");
  graph.quota_cpus = 1.5;
  const Result<CostInputs> inputs = cost_inputs(graph, {.ranks = 4});
  ASSERT_TRUE(inputs.ok()) << inputs.status().message();
  EXPECT_EQ(inputs->cpus, 1.5);
}

TEST(CostInputs, RanksOfDifferentMachinesAreJoinedByTheNetwork) {
  const CostInputs inputs = inputs_of("two_socket.json", {.ranks = 8, .nodes = 2, .network = {3, 50, 0}});
  EXPECT_EQ(inputs.ranks_per_node, 4);
  EXPECT_EQ(link_class(inputs, 3, 4), LinkClass::kNetwork);
  EXPECT_EQ(link_cost(inputs, 3, 4).bandwidth_gbps, 50);
  EXPECT_EQ(link_cost(inputs, 3, 4).latency_us, 3);
}

TEST(CostInputs, GpusBehindASwitchFabricAreNvlinkAndHaveTheirRails) {
  const CostInputs inputs = inputs_of("nvswitch8.json", {.ranks = 16, .nodes = 2, .on_gpus = true});
  EXPECT_EQ(inputs.ranks_per_node, 8);
  EXPECT_EQ(link_class(inputs, 0, 7), LinkClass::kNvlink);
  EXPECT_GT(link_cost(inputs, 0, 7).bandwidth_gbps, 100);
  EXPECT_EQ(inputs.rails, 8);
  EXPECT_EQ(rail_of(inputs, 11), 3);
}

TEST(CostInputs, RanksOnGpusNeedGpus) {
  const Result<CostInputs> inputs = cost_inputs(fixture("two_socket.json"), {.ranks = 2, .on_gpus = true});
  EXPECT_EQ(inputs.status().code(), Code::kInvalidArgument);
}

TEST(CostInputs, EveryFixtureGivesEveryPairOfRanksALinkWithABandwidth) {
  for (const char* name : {"hybrid", "memory_only", "no_io", "no_numa", "nvswitch8", "pcie4", "two_socket"}) {
    const CostInputs inputs = inputs_of(std::string(name) + ".json", {.ranks = 8, .nodes = 2});
    for (Rank from = 0; from < 8; ++from) {
      for (Rank to = 0; to < 8; ++to) EXPECT_GT(link_cost(inputs, from, to).bandwidth_gbps, 0) << name;
    }
  }
}

}  // namespace
}  // namespace gimbal
