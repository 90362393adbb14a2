#include "topology/discover.h"

#include <mutex>

#include "base/cpu.h"
#include "topology/gpu_drivers.h"
#include "topology/hwloc_reader.h"
#include "topology/sysfs.h"

namespace gimbal {
namespace {

void add_allowance(TopologyGraph& graph) {
  const CpuAllowance allowance = read_cpu_allowance();
  graph.quota_cpus = allowance.quota_cpus;
  for (TopologyNode& node : graph.nodes) {
    if (node.kind != NodeKind::kPu || node.os_index >= CPU_SETSIZE) continue;
    node.allowed = node.allowed && CPU_ISSET(static_cast<size_t>(node.os_index), &allowance.affinity);
  }
}

}  // namespace

Result<TopologyGraph> discover_topology() {
  // One rank of a process at a time: hwloc asks libudev, which fills a table of its own at its first use, without a lock.
  static std::mutex asks_libudev;
  std::unique_lock<std::mutex> lock(asks_libudev);
  ASSIGN_OR_RETURN(const HwlocTopology topology, load_hwloc(nullptr));
  lock.unlock();
  TopologyGraph graph = graph_from_hwloc(topology.get());
  graph.is_this_machine = hwloc_topology_is_thissystem(topology.get()) != 0;
  if (graph.is_this_machine) {
    add_allowance(graph);
    add_sysfs_facts(graph, "/sys");
    add_driver_facts(graph, find_driver_gpus());
  }
  RETURN_IF_ERROR(check_graph(graph));
  return graph;
}

}  // namespace gimbal
