// The facts that public topology files are known to hold, and the inputs that have crashed readers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scoped_environment.h"
#include "tests/unit/topology/reference_files.h"
#include "topology/load.h"
#include "topology/orders.h"

namespace gimbal::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TopologyGraph load(const std::string& path) {
  Result<TopologyGraph> graph = load_topology_file(path);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? *graph : TopologyGraph{};
}

size_t count(const TopologyGraph& graph, NodeKind kind) { return nodes_of_kind(graph, kind).size(); }

NodeId gpu(const TopologyGraph& graph, size_t index) { return nodes_of_kind(graph, NodeKind::kGpu).at(index); }

std::string bus_id(const TopologyGraph& graph, NodeId id) { return format(*graph.nodes[id].bus_id); }

std::vector<std::string> nearest(const TopologyGraph& graph, NodeId device) {
  std::vector<std::string> ids;
  for (const NodeId nic : PathFinder(graph).nearest_nics(device)) ids.push_back(bus_id(graph, nic));
  return ids;
}

TEST(AzureNdv4, GpusAreNumberedByBusIdAndTieBetweenTheirSwitchsNics) {
  const auto path = reference_file("topologies/azure-ndv4-topo.xml");
  if (!path) GTEST_SKIP() << kNoReferenceFiles;
  const TopologyGraph graph = load(*path);
  EXPECT_EQ(count(graph, NodeKind::kNuma), 4);
  EXPECT_EQ(count(graph, NodeKind::kPu), 96);
  EXPECT_EQ(count(graph, NodeKind::kGpu), 8);
  EXPECT_EQ(count(graph, NodeKind::kNic), 8);
  EXPECT_EQ(count(graph, NodeKind::kSwitch), 4);
  std::vector<std::string> ids;
  std::vector<int32_t> numa;
  for (size_t i = 0; i < 8; ++i) {
    ids.push_back(bus_id(graph, gpu(graph, i)));
    numa.push_back(graph.nodes[gpu(graph, i)].numa.at(0));
  }
  EXPECT_THAT(ids, ElementsAre("0001:00:00.0", "0002:00:00.0", "0003:00:00.0", "0004:00:00.0", "000b:00:00.0", "000c:00:00.0",
                               "000d:00:00.0", "000e:00:00.0"));
  EXPECT_THAT(numa, ElementsAre(1, 1, 0, 0, 3, 3, 2, 2));
  EXPECT_THAT(nearest(graph, gpu(graph, 0)), ElementsAre("0101:00:00.0", "0102:00:00.0"));
}

TEST(AwsP4d, EachPairOfGpusHasItsSwitchsNic) {
  const auto path = reference_file("topologies/aws-p4d-24xl-topo.xml");
  if (!path) GTEST_SKIP() << kNoReferenceFiles;
  const TopologyGraph graph = load(*path);
  EXPECT_EQ(count(graph, NodeKind::kNuma), 2);
  EXPECT_EQ(count(graph, NodeKind::kPu), 96);
  EXPECT_EQ(count(graph, NodeKind::kSwitch), 4);
  ASSERT_EQ(count(graph, NodeKind::kGpu), 8);
  EXPECT_EQ(count(graph, NodeKind::kNic), 4);
  for (size_t i = 0; i < 8; ++i) {
    const std::string bus = bus_id(graph, gpu(graph, i)).substr(0, 7);
    EXPECT_THAT(nearest(graph, gpu(graph, i)), ElementsAre(bus + ":1b.0"));
  }
  EXPECT_EQ(bus_id(graph, gpu(graph, 7)), "0000:a0:1d.0");
}

TEST(Rccl8p1h, GpusHaveCountedDirectLinksAndTieBetweenTwoNics) {
  const auto path = reference_file("topologies/rccl-topo_8p1h_n1.xml");
  if (!path) GTEST_SKIP() << kNoReferenceFiles;
  const TopologyGraph graph = load(*path);
  EXPECT_EQ(count(graph, NodeKind::kNuma), 2);
  EXPECT_EQ(count(graph, NodeKind::kPu), 128);
  ASSERT_EQ(count(graph, NodeKind::kGpu), 8);
  ASSERT_EQ(count(graph, NodeKind::kNic), 4);
  EXPECT_EQ(bus_id(graph, gpu(graph, 0)), "0000:29:00.0");
  for (const NodeId nic : nodes_of_kind(graph, NodeKind::kNic)) EXPECT_EQ(graph.nodes[nic].ports.at(0).gbits, 200);
  const auto names = [&](NodeId device) {
    std::vector<std::string> all;
    for (const NodeId nic : PathFinder(graph).nearest_nics(device)) all.push_back(graph.nodes[nic].name);
    return all;
  };
  for (size_t i = 0; i < 4; ++i) EXPECT_THAT(names(gpu(graph, i)), ElementsAre("mlx5_1", "mlx5_3"));
  for (size_t i = 4; i < 8; ++i) EXPECT_THAT(names(gpu(graph, i)), ElementsAre("mlx5_5", "mlx5_7"));
  const auto links = [&](size_t a, size_t b) {
    for (const TopologyLink& link : graph.links) {
      if (link.kind == LinkKind::kNvlink && link.a == gpu(graph, a) && link.b == gpu(graph, b)) return link.count;
    }
    return 0;
  };
  EXPECT_EQ(links(0, 1), 4);
  EXPECT_EQ(links(0, 4), 2);
  EXPECT_EQ(links(0, 6), 1);
  EXPECT_EQ(links(0, 2), 0);
}

TEST(NvidiaDgx2, Has16GpusOn12NvswitchesAndNoNic) {
  const auto path = reference_file("topologies/hwloc-nvidiaDGX2.xml");
  if (!path) GTEST_SKIP() << kNoReferenceFiles;
  const TopologyGraph graph = load(*path);
  EXPECT_EQ(count(graph, NodeKind::kPackage), 2);
  EXPECT_EQ(count(graph, NodeKind::kNuma), 2);
  EXPECT_EQ(count(graph, NodeKind::kCore), 4);
  EXPECT_EQ(count(graph, NodeKind::kNvSwitch), 12);
  EXPECT_EQ(count(graph, NodeKind::kNic), 0);
  ASSERT_EQ(count(graph, NodeKind::kGpu), 16);
  EXPECT_EQ(bus_id(graph, gpu(graph, 0)), "0000:34:00.0");
  EXPECT_EQ(bus_id(graph, gpu(graph, 15)), "0000:e7:00.0");
  std::vector<int64_t> pus;
  for (const NodeId pu : nodes_of_kind(graph, NodeKind::kPu)) pus.push_back(graph.nodes[pu].os_index);
  EXPECT_THAT(pus, ElementsAre(0, 1, 24, 25));
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(graph.nodes[gpu(graph, i)].name, "nvml" + std::to_string(i));
    EXPECT_EQ(graph.nodes[ancestor_of_kind(graph, gpu(graph, i), NodeKind::kPackage)].os_index, i / 8);
  }
  // 6 links of 25 GB/s each into the NVSwitches, between the boards too.
  const Path path_between = PathFinder(graph).find(gpu(graph, 0), gpu(graph, 15));
  EXPECT_EQ(path_between.path_class, PathClass::kNvl);
  EXPECT_EQ(path_between.bandwidth_gbps, 150);
}

TEST(FakeCpuKinds, CutAcrossCores) {
  const auto path = reference_file("topologies/hwloc-fakecpukinds.xml");
  if (!path) GTEST_SKIP() << kNoReferenceFiles;
  const TopologyGraph graph = load(*path);
  EXPECT_EQ(count(graph, NodeKind::kCore), 2);
  EXPECT_EQ(graph.cpu_kinds.size(), 3);
  std::vector<int32_t> kinds;
  std::vector<int64_t> cores;
  for (const NodeId pu : nodes_of_kind(graph, NodeKind::kPu)) {
    kinds.push_back(graph.nodes[pu].cpu_kind);
    cores.push_back(graph.nodes[graph.nodes[pu].parent].os_index);
  }
  EXPECT_THAT(kinds, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(cores, ElementsAre(0, 1, 0, 1));
}

TEST(HwlocVersion3, IsReadOrRefusedByItsVersion) {
  const auto path = reference_file("topologies/hwloc-cxlmem+dax.v3.xml");
  if (!path) GTEST_SKIP() << kNoReferenceFiles;
  const Result<TopologyGraph> graph = load_topology_file(*path);
  if (graph.ok()) {
    EXPECT_EQ(count(*graph, NodeKind::kPackage), 1);
    EXPECT_EQ(count(*graph, NodeKind::kCore), 4);
  } else {
    EXPECT_THAT(graph.status().message(), AllOf(HasSubstr(*path), HasSubstr("version 3.0 is too new")));
  }
}

TEST(HostileHwlocXml, IsAnErrorWithThePathWhicheverParserHwlocUses) {
  for (const char* libxml : {"0", "1"}) {
    const ScopedEnvironment parser("HWLOC_LIBXML", libxml);
    for (const char* name : {"hwloc-truncated.xml", "hwloc-empty.xml", "hwloc-no-complete-cpuset.xml"}) {
      const auto path = reference_file(std::string("inputs/") + name);
      if (!path) GTEST_SKIP() << kNoReferenceFiles;
      const Result<TopologyGraph> graph = load_topology_file(*path);
      // hwloc 2.9 dies of the last one; a later one may read it.
      if (graph.ok()) {
        EXPECT_EQ(count(*graph, NodeKind::kPu), 4) << name;
      } else {
        EXPECT_THAT(graph.status().message(), HasSubstr(*path));
      }
    }
  }
}

TEST(NumaIdMinusOne, IsUnknownAndNearToEverything) {
  const auto path = reference_file("inputs/nccl-numaid-minus1.xml");
  if (!path) GTEST_SKIP() << kNoReferenceFiles;
  const TopologyGraph graph = load(*path);
  ASSERT_EQ(count(graph, NodeKind::kGpu), 2);
  ASSERT_EQ(count(graph, NodeKind::kNic), 1);
  const NodeId nic = nodes_of_kind(graph, NodeKind::kNic)[0];
  const PathFinder paths(graph);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(graph.nodes[gpu(graph, i)].numa.empty());
    EXPECT_EQ(paths.find(gpu(graph, i), nic).path_class, PathClass::kPhb);
  }
}

TEST(ManyPciElements, AreAllRead) {
  const auto path = reference_file("inputs/nccl-592-pci.xml");
  if (!path) GTEST_SKIP() << kNoReferenceFiles;
  const TopologyGraph graph = load(*path);
  EXPECT_EQ(count(graph, NodeKind::kNuma), 2);
  EXPECT_EQ(count(graph, NodeKind::kSwitch), 16);
  EXPECT_EQ(count(graph, NodeKind::kGpu), 16);
  EXPECT_EQ(count(graph, NodeKind::kNic), 560);
  EXPECT_EQ(rails_of(graph, PathFinder(graph)).size(), 560);
}

}  // namespace
}  // namespace gimbal::test
