#include "topology/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/topology/machines.h"
#include "topology/orders.h"

namespace gimbal::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Paths, ClassFollowsTheSwitchesAndBridgesBetween) {
  TopologyGraph graph = machine_with_bridges({0, 1});
  const NodeId top = add_device(graph, NodeKind::kSwitch, 2, "0000:10:00.0");
  const NodeId left = add_device(graph, NodeKind::kSwitch, top, "0000:20:00.0");
  const NodeId right = add_device(graph, NodeKind::kSwitch, top, "0000:30:00.0");
  const NodeId gpu = add_device(graph, NodeKind::kGpu, left, "0000:21:00.0");
  const NodeId pix = add_device(graph, NodeKind::kNic, left, "0000:22:00.0");
  const NodeId pxb = add_device(graph, NodeKind::kNic, right, "0000:31:00.0", 8);
  const NodeId phb = add_device(graph, NodeKind::kNic, 2, "0000:40:00.0");
  const NodeId sys = add_device(graph, NodeKind::kNic, 4, "0000:80:00.0");
  const PathFinder paths(graph);
  EXPECT_EQ(paths.find(gpu, gpu).path_class, PathClass::kLoc);
  EXPECT_EQ(paths.find(gpu, pix).path_class, PathClass::kPix);
  EXPECT_EQ(paths.find(gpu, pxb).path_class, PathClass::kPxb);
  EXPECT_EQ(paths.find(gpu, phb).path_class, PathClass::kPhb);
  EXPECT_EQ(paths.find(gpu, sys).path_class, PathClass::kSys);
  EXPECT_EQ(paths.find(gpu, 1).path_class, PathClass::kPhb) << "its own NUMA node";
  EXPECT_EQ(paths.find(gpu, 3).path_class, PathClass::kSys) << "the other NUMA node";
  EXPECT_THAT(paths.find(gpu, pxb).nodes, ElementsAre(gpu, left, top, right, pxb));
  EXPECT_EQ(paths.find(gpu, pxb).bandwidth_gbps, 8) << "the narrowest link";
  EXPECT_THAT(paths.find(gpu, pix).nodes, ElementsAre(gpu, left, pix));
}

TEST(Paths, AnUnknownNumaNodeIsNearToAll) {
  TopologyGraph graph = machine_with_bridges({0, -1});
  const NodeId gpu = add_device(graph, NodeKind::kGpu, 2, "0000:01:00.0");
  const NodeId nic = add_device(graph, NodeKind::kNic, 4, "0000:02:00.0");
  EXPECT_EQ(PathFinder(graph).find(gpu, nic).path_class, PathClass::kPhb);
}

TEST(Paths, MachinesReachEachOtherOverTheNetwork) {
  TopologyGraph graph = machine_with_bridges({0});
  const NodeId here = add_device(graph, NodeKind::kGpu, 2, "0000:01:00.0");
  merge_graph(graph, TopologyGraph(graph));
  const NodeId there = nodes_of_kind(graph, NodeKind::kGpu).at(1);
  EXPECT_EQ(PathFinder(graph).find(here, there).path_class, PathClass::kNet);
}

TEST(Paths, NvswitchesAreOneFabricAsWideAsTheDevicesLinksIntoIt) {
  TopologyGraph graph = machine_with_bridges({0, 1});
  const NodeId a = add_device(graph, NodeKind::kGpu, 2, "0000:01:00.0");
  const NodeId b = add_device(graph, NodeKind::kGpu, 4, "0000:02:00.0");
  const NodeId first = add_node(graph, {.kind = NodeKind::kNvSwitch, .parent = 0});
  const NodeId second = add_node(graph, {.kind = NodeKind::kNvSwitch, .parent = 0});
  add_nvlink(graph, a, first, 100);
  add_nvlink(graph, a, second, 100);
  add_nvlink(graph, b, first, 150);
  const Path path = PathFinder(graph).find(a, b);
  EXPECT_EQ(path.path_class, PathClass::kNvl);
  EXPECT_EQ(path.bandwidth_gbps, 150);
}

TEST(Paths, SeveralDirectLinksAddUp) {
  TopologyGraph graph = machine_with_bridges({0});
  const NodeId a = add_device(graph, NodeKind::kGpu, 2, "0000:01:00.0");
  const NodeId b = add_device(graph, NodeKind::kGpu, 2, "0000:02:00.0");
  const NodeId c = add_device(graph, NodeKind::kGpu, 2, "0000:03:00.0");
  add_nvlink(graph, a, b, 50);
  add_nvlink(graph, a, b, 50);
  const PathFinder paths(graph);
  EXPECT_EQ(paths.find(b, a).bandwidth_gbps, 100);
  EXPECT_EQ(paths.find(a, c).path_class, PathClass::kPhb);
}

TEST(NearestNics, ShowsTiesAndPrefersWidthWithinAClass) {
  TopologyGraph graph = machine_with_bridges({0});
  const NodeId chip = add_device(graph, NodeKind::kSwitch, 2, "0000:01:00.0", 32);
  const NodeId gpu = add_device(graph, NodeKind::kGpu, chip, "0000:02:00.0", 32);
  const NodeId first = add_device(graph, NodeKind::kNic, chip, "0000:03:00.0", 16);
  const NodeId second = add_device(graph, NodeKind::kNic, chip, "0000:04:00.0", 16);
  add_device(graph, NodeKind::kNic, 2, "0000:05:00.0", 64);
  number_devices(graph);
  EXPECT_THAT(PathFinder(graph).nearest_nics(gpu), ElementsAre(first, second));
  const NodeId wide = add_device(graph, NodeKind::kNic, chip, "0000:06:00.0", 32);
  number_devices(graph);
  EXPECT_THAT(PathFinder(graph).nearest_nics(gpu), ElementsAre(wide));
}

TEST(Rails, SpreadTheGpusOfATie) {
  TopologyGraph graph = machine_with_bridges({0});
  std::vector<NodeId> gpus;
  for (const char* bus : {"0000:01:00.0", "0000:02:00.0"}) gpus.push_back(add_device(graph, NodeKind::kGpu, 2, bus));
  const NodeId first = add_device(graph, NodeKind::kNic, 2, "0000:03:00.0");
  const NodeId second = add_device(graph, NodeKind::kNic, 2, "0000:04:00.0");
  number_devices(graph);
  const std::vector<Rail> rails = rails_of(graph, PathFinder(graph));
  ASSERT_EQ(rails.size(), 2);
  EXPECT_EQ(rails[0].nic, first);
  EXPECT_THAT(rails[0].gpus, ElementsAre(gpus[0]));
  EXPECT_EQ(rails[1].nic, second);
  EXPECT_THAT(rails[1].gpus, ElementsAre(gpus[1]));
}

// Four GPUs whose direct links form the ring 0 - 2 - 1 - 3 - 0.
TEST(ChannelOrders, RingsFollowDirectLinks) {
  TopologyGraph graph = machine_with_bridges({0});
  std::vector<NodeId> gpu;
  for (int i = 1; i <= 4; ++i) gpu.push_back(add_device(graph, NodeKind::kGpu, 2, "0000:0" + std::to_string(i) + ":00.0"));
  number_devices(graph);
  for (const auto& [a, b] : {std::pair(0, 2), std::pair(2, 1), std::pair(1, 3), std::pair(3, 0)})
    add_nvlink(graph, gpu[a], gpu[b], 50);
  const std::vector<ChannelOrder> orders = channel_orders(graph, PathFinder(graph));
  ASSERT_EQ(orders.size(), 1);
  EXPECT_EQ(orders[0].nic, kNoNode);
  EXPECT_THAT(orders[0].devices, ElementsAre(gpu[0], gpu[2], gpu[1], gpu[3]));
}

TEST(ChannelOrders, EachChannelBeginsAtItsRail) {
  TopologyGraph graph = machine_with_bridges({0, 1});
  const NodeId gpu_0 = add_device(graph, NodeKind::kGpu, 2, "0000:01:00.0");
  const NodeId gpu_1 = add_device(graph, NodeKind::kGpu, 4, "0000:81:00.0");
  const NodeId nic_0 = add_device(graph, NodeKind::kNic, 2, "0000:02:00.0");
  const NodeId nic_1 = add_device(graph, NodeKind::kNic, 4, "0000:82:00.0");
  number_devices(graph);
  const std::vector<ChannelOrder> orders = channel_orders(graph, PathFinder(graph));
  ASSERT_EQ(orders.size(), 2);
  EXPECT_EQ(orders[0].nic, nic_0);
  EXPECT_THAT(orders[0].devices, ElementsAre(gpu_0, gpu_1));
  EXPECT_EQ(orders[1].nic, nic_1);
  EXPECT_THAT(orders[1].devices, ElementsAre(gpu_1, gpu_0));
}

TEST(ChannelOrders, AMachineWithNothingToPassAlongHasNone) {
  TopologyGraph graph;
  add_node(graph, {});
  EXPECT_THAT(channel_orders(graph, PathFinder(graph)), IsEmpty());
}

TEST(GroupDevices, JoinsWhatReachesEachOtherOverMembers) {
  TopologyGraph graph = machine_with_bridges({0, 1});
  const NodeId a = add_device(graph, NodeKind::kGpu, 2, "0000:01:00.0");
  const NodeId b = add_device(graph, NodeKind::kGpu, 4, "0000:81:00.0");
  const NodeId c = add_device(graph, NodeKind::kGpu, 2, "0000:02:00.0");
  const PathFinder paths(graph);
  EXPECT_THAT(group_devices(paths, {a, b, c}, PathClass::kPhb), ElementsAre(ElementsAre(a, c), ElementsAre(b)));
  EXPECT_THAT(group_devices(paths, {a, b, c}, PathClass::kSys), ElementsAre(ElementsAre(a, b, c)));
}

}  // namespace
}  // namespace gimbal::test
