// The graph's own JSON with the answers beside it: counts, each GPU's nearest NICs, paths, rings. It can be loaded as a graph.
#pragma once

#include <string>

#include "topology/graph.h"

namespace gimbal {

std::string json_report(const TopologyGraph& graph);

}  // namespace gimbal
