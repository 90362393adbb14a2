// The I/O side of hwloc's tree: host bridges, switches, and the devices that collectives care for. Part of hwloc_reader.
#pragma once

#include <hwloc.h>

#include <unordered_map>
#include <vector>

#include "topology/graph.h"

namespace gimbal {

using HwlocNodes = std::unordered_map<const hwloc_obj*, NodeId>;

// Adds what hangs below `holder` (a machine, package, ...) that became `node`; near: the NUMA nodes around it.
void read_hwloc_devices(hwloc_obj_t holder, NodeId node, const std::vector<int32_t>& near, TopologyGraph& graph,
                        HwlocNodes& nodes);

// Adds the links of hwloc's matrices of direct links between GPUs.
void read_hwloc_direct_links(hwloc_topology_t topology, const HwlocNodes& nodes, TopologyGraph& graph);

}  // namespace gimbal
