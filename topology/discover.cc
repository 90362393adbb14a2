#include "topology/discover.h"

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
  ASSIGN_OR_RETURN(const HwlocTopology topology, load_hwloc(nullptr));
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
