// The machine on one screen.
#pragma once

#include <string>

#include "topology/graph.h"

namespace gimbal {

// origin: "this machine" or the file's path.
std::string text_report(const TopologyGraph& graph, const std::string& origin);

}  // namespace gimbal
