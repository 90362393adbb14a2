// What of a machine works below its ability, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "topology/graph.h"

namespace gimbal {

struct Degraded {
  NodeId node = kNoNode;
  std::string what;
  std::string remedy;
};

// PCI links that trained down, ports that are down, NUMA nodes that are far, in the graph's order.
std::vector<Degraded> find_degraded(const TopologyGraph& graph);

}  // namespace gimbal
