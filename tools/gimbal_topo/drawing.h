// The machine as a picture: packages and NUMA nodes with their PUs, below them switches and devices, links coloured and
// weighted by bandwidth, and the rings of the first channels.
#pragma once

#include <string>

#include "base/status.h"
#include "topology/graph.h"

namespace gimbal {

std::string draw_svg(const TopologyGraph& graph, const std::string& title);

// The drawing as PNG, made by rsvg-convert; without that program an error says what to install.
Status write_png(const std::string& svg, const std::string& path);

}  // namespace gimbal
