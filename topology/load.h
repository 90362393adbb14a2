// Reads a machine from a file: Gimbal's JSON, hwloc's XML, NCCL's topology XML. What the file is, its content says.
#pragma once

#include <string>

#include "topology/graph.h"

namespace gimbal {

// A file is hostile until checked: it is read by a child process under limits. Every error names the path.
Result<TopologyGraph> load_topology_file(const std::string& path);

Status save_topology_file(const TopologyGraph& graph, const std::string& path);

// The same for text, in this process and without limits: hwloc may die of it. The child does this.
Result<TopologyGraph> graph_from_text(const std::string& text);

}  // namespace gimbal
