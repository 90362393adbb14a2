// The graph as JSON, Gimbal's own format for a machine (docs/topology.md).
#pragma once

#include <string>
#include <string_view>

#include "topology/graph.h"

namespace gimbal {

std::string graph_to_json(const TopologyGraph& graph);

// Checks everything: the result's invariants hold whatever the text is.
Result<TopologyGraph> graph_from_json(std::string_view text);

}  // namespace gimbal
