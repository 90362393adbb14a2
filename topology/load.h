// Reads a machine from a file: Gimbal's JSON, hwloc's XML, NCCL's topology XML. What the file is, its content says.
#pragma once

#include <string>

#include "topology/graph.h"

namespace gimbal {

// A file is hostile until checked: a child process under limits parses it. Every error names the path.
Result<TopologyGraph> load_topology_file(const std::string& path);

// The same for the text of a file.
Result<TopologyGraph> graph_from_hostile_text(const std::string& text);

// What the child does: parses in this process and without limits. hwloc may die of it.
Result<TopologyGraph> graph_from_text(const std::string& text);

}  // namespace gimbal
