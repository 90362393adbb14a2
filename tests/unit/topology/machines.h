// Graphs put together by hand.
#pragma once

#include <string>

#include "topology/graph.h"

namespace gimbal::test {

inline NodeId add_device(TopologyGraph& graph, NodeKind kind, NodeId parent, const std::string& bus_id, double gbps = 16) {
  const NodeId id = add_node(graph, {.kind = kind, .parent = parent, .numa = graph.nodes[parent].numa});
  graph.nodes[id].bus_id = parse_bus_id(bus_id);
  graph.links.push_back({.kind = LinkKind::kPci, .a = id, .b = parent, .bandwidth_gbps = gbps});
  return id;
}

inline void add_nvlink(TopologyGraph& graph, NodeId a, NodeId b, double gbps) {
  graph.links.push_back({.kind = LinkKind::kNvlink, .a = std::min(a, b), .b = std::max(a, b), .bandwidth_gbps = gbps});
}

// A machine with one host bridge per NUMA node given, -1 for one at an unknown place; the bridges' ids in order are 2, 4, ...
inline TopologyGraph machine_with_bridges(const std::vector<int32_t>& numa_nodes) {
  TopologyGraph graph;
  add_node(graph, {});
  for (const int32_t numa : numa_nodes) {
    const std::vector<int32_t> near = numa < 0 ? std::vector<int32_t>{} : std::vector<int32_t>{numa};
    add_node(graph, {.kind = NodeKind::kNuma, .parent = 0, .os_index = numa, .numa = near});
    add_node(graph, {.kind = NodeKind::kHostBridge, .parent = 0, .numa = near});
  }
  return graph;
}

}  // namespace gimbal::test
