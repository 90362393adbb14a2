// What sysfs, the GPU drivers and the graph itself say of links and ports, on a made-up /sys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/topology/machines.h"
#include "topology/degraded.h"
#include "topology/discover.h"
#include "topology/gpu_drivers.h"
#include "topology/paths.h"
#include "topology/sysfs.h"

namespace gimbal::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A folder that stands for /sys, removed at the end.
class Sysfs : public testing::Test {
 protected:
  Sysfs() {
    std::string name = fs::temp_directory_path() / "gimbal-sysfs-XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~Sysfs() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& line) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << line << "\n";
  }
  // A device 0000:02:00.0 below the port 0000:01:00.0, as the kernel lays them out.
  void write_pci(const std::string& current_speed, const std::string& current_width, const std::string& port_speed) const {
    const std::string port = "devices/pci0000:00/0000:01:00.0/";
    const std::string device = port + "0000:02:00.0/";
    write(device + "current_link_speed", current_speed);
    write(device + "current_link_width", current_width);
    write(device + "max_link_speed", "32.0 GT/s PCIe");
    write(device + "max_link_width", "16");
    write(port + "max_link_speed", port_speed);
    write(port + "max_link_width", "16");
    fs::create_directories(root_ / "bus/pci/devices");
    fs::create_symlink(root_ / device, root_ / "bus/pci/devices/0000:02:00.0");
  }

  fs::path root_;
};

TopologyGraph machine_with(NodeKind kind) {
  TopologyGraph graph = machine_with_bridges({0});
  add_device(graph, kind, 2, "0000:02:00.0", 0);
  number_devices(graph);
  return graph;
}

TEST_F(Sysfs, ALinkBelowWhatBothEndsCanIsDegraded) {
  write_pci("8.0 GT/s PCIe", "4", "16.0 GT/s PCIe");
  TopologyGraph graph = machine_with(NodeKind::kNic);
  add_sysfs_facts(graph, root_);
  EXPECT_NEAR(graph.links[0].bandwidth_gbps, 3.94, 0.01);
  const std::vector<Degraded> all = find_degraded(graph);
  ASSERT_EQ(all.size(), 1);
  EXPECT_EQ(all[0].what, "NIC 0 (0000:02:00.0): PCI link trained to 8 GT/s x4 of 16 GT/s x16");
  EXPECT_THAT(all[0].remedy, HasSubstr("reseat"));
}

TEST_F(Sysfs, ASlotThatOffersLessThanTheCardIsNotDegraded) {
  write_pci("16.0 GT/s PCIe", "16", "16.0 GT/s PCIe");
  TopologyGraph graph = machine_with(NodeKind::kNic);
  add_sysfs_facts(graph, root_);
  EXPECT_THAT(find_degraded(graph), IsEmpty());
}

TEST_F(Sysfs, AnIdleGpusLowerSpeedIsToBeLookedAtUnderLoad) {
  write_pci("2.5 GT/s PCIe", "16", "32.0 GT/s PCIe");
  TopologyGraph graph = machine_with(NodeKind::kGpu);
  add_sysfs_facts(graph, root_);
  const std::vector<Degraded> all = find_degraded(graph);
  ASSERT_EQ(all.size(), 1);
  EXPECT_THAT(all[0].remedy, HasSubstr("under load"));
}

TEST_F(Sysfs, AnUnknownLinkStaysUnknown) {
  write_pci("Unknown", "0", "Unknown");
  TopologyGraph graph = machine_with(NodeKind::kNic);
  add_sysfs_facts(graph, root_);
  EXPECT_EQ(graph.links[0].bandwidth_gbps, 0);
  EXPECT_THAT(find_degraded(graph), IsEmpty());
}

TEST_F(Sysfs, InterfacesHaveSpeedAndState) {
  write("class/net/eth0/speed", "25000");
  write("class/net/eth0/operstate", "down");
  TopologyGraph graph = machine_with(NodeKind::kNic);
  graph.nodes[3].ports = {{.name = "eth0"}, {.name = "eth1"}};
  add_sysfs_facts(graph, root_);
  EXPECT_EQ(graph.nodes[3].ports[0].gbits, 25);
  EXPECT_EQ(graph.nodes[3].ports[0].state, PortState::kDown);
  EXPECT_EQ(graph.nodes[3].ports[1].state, PortState::kUnknown);
  ASSERT_EQ(find_degraded(graph).size(), 1);
  EXPECT_THAT(find_degraded(graph)[0].what, HasSubstr("port eth0 is down"));
}

TEST_F(Sysfs, InfinibandPortsHaveStateRateAndGid) {
  write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  write("class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)");
  write("class/infiniband/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001");
  write("class/net/ib0/operstate", "down");
  TopologyGraph graph = machine_with(NodeKind::kNic);
  graph.nodes[3].ports = {{.name = "mlx5_0", .interface = "ib0"}};
  add_sysfs_facts(graph, root_);
  const NetPort& port = graph.nodes[3].ports[0];
  EXPECT_EQ(port.gbits, 200);
  EXPECT_EQ(port.state, PortState::kUp) << "the port counts, not IP on it";
  EXPECT_EQ(port.gid, "fe80:0000:0000:0000:0000:0000:0000:0001");
}

TEST(FarNumaNode, IsNamedWithItsDistance) {
  TopologyGraph graph = machine_with_bridges({0, 1});
  graph.links.push_back({.kind = LinkKind::kInterconnect, .a = 1, .b = 3, .distance = 32});
  EXPECT_THAT(find_degraded(graph), IsEmpty()) << "the other package of an ordinary server";
  graph.links[0].distance = 60;
  ASSERT_EQ(find_degraded(graph).size(), 1);
  EXPECT_THAT(find_degraded(graph)[0].what, HasSubstr("NUMA 0 and NUMA 1 are far from each other: distance 60"));
}

TEST(DriverFacts, AddModelsPeersAndNvlinks) {
  TopologyGraph graph = machine_with_bridges({0});
  const NodeId first = add_device(graph, NodeKind::kGpu, 2, "0000:01:00.0");
  const NodeId second = add_device(graph, NodeKind::kGpu, 2, "0000:02:00.0");
  number_devices(graph);
  const BusId one = *parse_bus_id("0000:01:00.0");
  const BusId two = *parse_bus_id("0000:02:00.0");
  const BusId nvswitch = *parse_bus_id("0000:0a:00.0");
  add_driver_facts(graph,
                   {{one, "Example GPU", 90, {two}, {{two, 4}, {nvswitch, 2}}}, {two, "Example GPU", 90, {one}, {{one, 4}}}});
  EXPECT_EQ(graph.nodes[first].model, "Example GPU");
  EXPECT_THAT(graph.nodes[first].peer_gpus, ElementsAre(1));
  EXPECT_EQ(nodes_of_kind(graph, NodeKind::kNvSwitch).size(), 1);
  const Path path = PathFinder(graph).find(first, second);
  EXPECT_EQ(path.path_class, PathClass::kNvl);
  EXPECT_EQ(path.bandwidth_gbps, 100) << "4 links of 25 GB/s, counted once";
}

TEST(DriverFacts, LeaveDirectLinksThatHwlocFound) {
  TopologyGraph graph = machine_with_bridges({0});
  const NodeId first = add_device(graph, NodeKind::kGpu, 2, "0000:01:00.0");
  const NodeId second = add_device(graph, NodeKind::kGpu, 2, "0000:02:00.0");
  number_devices(graph);
  add_nvlink(graph, first, second, 50);
  const BusId one = *parse_bus_id("0000:01:00.0");
  const BusId two = *parse_bus_id("0000:02:00.0");
  add_driver_facts(graph, {{one, "", 90, {}, {{two, 4}}}});
  EXPECT_EQ(PathFinder(graph).find(first, second).bandwidth_gbps, 50);
}

TEST(DiscoverTopology, FindsThisMachineAndWhatThisThreadMayUse) {
  const Result<TopologyGraph> graph = discover_topology();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_TRUE(graph->is_this_machine);
  cpu_set_t affinity;
  ASSERT_EQ(sched_getaffinity(0, sizeof(affinity), &affinity), 0);
  int allowed = 0;
  for (const TopologyNode& node : graph->nodes) allowed += node.kind == NodeKind::kPu && node.allowed ? 1 : 0;
  EXPECT_EQ(allowed, CPU_COUNT(&affinity));
}

}  // namespace
}  // namespace gimbal::test
