// The machine's tree as lines of text: packages, NUMA nodes, switches and devices.
#pragma once

#include <string>

#include "topology/graph.h"

namespace gimbal {

std::string text_tree(const TopologyGraph& graph, NodeId machine);

}  // namespace gimbal
