// Pieces of text that the report, the tree and the drawing share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/graph.h"

namespace gimbal {

// "0-3,8" of ascending numbers; "none" without any.
std::string ranges(const std::vector<int64_t>& numbers);

// "1 GPU", "3 GPUs"; the plural of "switch" is "switches".
std::string counted(size_t count, const std::string& noun);

// "31.4 GiB", "512 KiB".
std::string binary_size(uint64_t bytes);

// "31.5 GB/s", "?" when unknown.
std::string bandwidth(double gbps);

// "0", "0,1", "unknown".
std::string numa_text(const std::vector<int32_t>& numa);

// The OS indexes of the PUs that pass.
template <typename Pass>
std::vector<int64_t> pu_numbers(const TopologyGraph& graph, Pass pass) {
  std::vector<int64_t> numbers;
  for (const NodeId id : nodes_of_kind(graph, NodeKind::kPu)) {
    if (pass(id)) numbers.push_back(graph.nodes[id].os_index);
  }
  return numbers;
}

// "mlx5_0 (ib0) 200 Gbit/s up".
std::string port_text(const NetPort& port);

}  // namespace gimbal
