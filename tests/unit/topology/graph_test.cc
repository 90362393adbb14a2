#include "topology/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/topology/machines.h"

namespace gimbal::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BusId, IsReadWithAndWithoutADomainAndWrittenWithOne) {
  EXPECT_EQ(format(*parse_bus_id("3B:00.1")), "0000:3b:00.1");
  EXPECT_EQ(format(*parse_bus_id("10000:e1:1f.7")), "10000:e1:1f.7");
  EXPECT_EQ(format(*parse_bus_id("ffff:ff:01.0")), "ffff:ff:01.0");
}

TEST(BusId, RefusesWhatIsNoAddress) {
  for (const char* text :
       {"", ":", "0000:3b:00", "0000:3b:00.", "0000:3bb:00.0", "x:3b:00.0", "0000:3b:00.0 ", "fffffffff:0:0.0"}) {
    EXPECT_FALSE(parse_bus_id(text)) << text;
  }
}

TEST(Graph, NumbersDevicesByBusIdWhateverTheirOrderInTheGraph) {
  TopologyGraph graph = machine_with_bridges({0});
  const NodeId later = add_device(graph, NodeKind::kGpu, 2, "0001:02:00.0");
  const NodeId earlier = add_device(graph, NodeKind::kGpu, 2, "0000:f0:00.0");
  number_devices(graph);
  EXPECT_THAT(nodes_of_kind(graph, NodeKind::kGpu), ElementsAre(earlier, later));
  EXPECT_EQ(label(graph, earlier), "GPU 0");
}

TEST(Graph, KeepsTheFilesNumbersOnlyWhenAllGpusHaveOne) {
  TopologyGraph graph = machine_with_bridges({0});
  const NodeId first = add_device(graph, NodeKind::kGpu, 2, "0000:01:00.0");
  const NodeId second = add_device(graph, NodeKind::kGpu, 2, "0000:02:00.0");
  graph.nodes[first].os_index = 1;
  number_devices(graph);
  EXPECT_EQ(graph.nodes[first].index, 0);
  graph.nodes[second].os_index = 0;
  number_devices(graph);
  EXPECT_EQ(graph.nodes[first].index, 1);
}

TEST(Graph, MakesTextPrintable) {
  TopologyGraph graph;
  add_node(graph, {.name = "a\x1b[31mb\n\xff"});
  EXPECT_EQ(graph.nodes[0].name, "a?[31mb??");
  EXPECT_EQ(printable(std::string(1000, 'x')).size(), 200);
}

TEST(CheckGraph, NamesTheBrokenInvariant) {
  TopologyGraph graph;
  EXPECT_THAT(check_graph(graph).message(), HasSubstr("not a machine"));
  graph = machine_with_bridges({0});
  ASSERT_TRUE(check_graph(graph).ok());
  graph.nodes[1].parent = 2;
  EXPECT_THAT(check_graph(graph).message(), HasSubstr("node 1 has the parent 2"));
  graph.nodes[1].parent = 0;
  graph.nodes[1].cpu_kind = 0;
  EXPECT_THAT(check_graph(graph).message(), HasSubstr("CPU kind 0 of 0"));
  graph.nodes[1].cpu_kind = -1;
  graph.links.push_back({.kind = LinkKind::kNvlink, .a = 0, .b = 9});
  EXPECT_THAT(check_graph(graph).message(), HasSubstr("joins nodes 0 and 9"));
  graph.links = {{.kind = LinkKind::kPci, .a = 1, .b = 2}};
  EXPECT_THAT(check_graph(graph).message(), HasSubstr("from a node to its parent"));
}

TEST(CheckGraph, RefusesATreeThatIsTooDeep) {
  TopologyGraph graph;
  add_node(graph, {});
  for (NodeId id = 0; id < 300; ++id) add_node(graph, {.kind = NodeKind::kSwitch, .parent = id});
  EXPECT_THAT(check_graph(graph).message(), HasSubstr("nested more than 80 deep"));
}

TEST(MergeGraph, AddsAnotherMachineWithItsLinks) {
  TopologyGraph one = machine_with_bridges({0});
  one.nodes[0].name = "one";
  TopologyGraph two = machine_with_bridges({0});
  two.nodes[0].name = "two";
  add_device(two, NodeKind::kGpu, 2, "0000:01:00.0");
  number_devices(two);
  merge_graph(one, two);
  EXPECT_EQ(nodes_of_kind(one, NodeKind::kMachine).size(), 2);
  const NodeId gpu = nodes_of_kind(one, NodeKind::kGpu).at(0);
  EXPECT_EQ(one.nodes[machine_of(one, gpu)].name, "two");
  EXPECT_EQ(one.links.at(0).a, gpu);
  EXPECT_TRUE(check_graph(one).ok());
}

TEST(MergeGraph, CountsTheSameMachineOnceAndAllowsWhatAnyRankMayUse) {
  TopologyGraph mine;
  add_node(mine, {.name = "host"});
  add_node(mine, {.kind = NodeKind::kPu, .parent = 0, .os_index = 0, .allowed = true});
  add_node(mine, {.kind = NodeKind::kPu, .parent = 0, .os_index = 1, .allowed = false});
  TopologyGraph theirs = mine;
  theirs.nodes[1].allowed = false;
  theirs.nodes[2].allowed = true;
  merge_graph(mine, theirs);
  EXPECT_EQ(mine.nodes.size(), 3);
  EXPECT_TRUE(mine.nodes[1].allowed && mine.nodes[2].allowed);
}

}  // namespace
}  // namespace gimbal::test
