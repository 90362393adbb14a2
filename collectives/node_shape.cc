#include "collectives/node_shape.h"

#include <algorithm>
#include <unordered_map>

namespace gimbal {

NodeShape::NodeShape(std::span<const int32_t> names) {
  std::unordered_map<int32_t, Rank> numbers;
  std::vector<uint32_t> sizes;
  for (const int32_t name : names) {
    const Rank node = numbers.try_emplace(name, static_cast<Rank>(numbers.size())).first->second;
    if (static_cast<size_t>(node) == sizes.size()) sizes.push_back(0);
    node_of_.push_back(node);
    local_rank_.push_back(static_cast<Rank>(sizes[static_cast<size_t>(node)]++));
  }
  first_member_.push_back(0);
  for (const uint32_t size : sizes) {
    first_member_.push_back(first_member_.back() + size);
    slices_ = std::max(slices_, static_cast<Rank>(size));
  }
  members_.resize(names.size());
  for (Rank rank = 0; rank < nranks(); ++rank) {
    members_[first_member_[static_cast<size_t>(node_of(rank))] + static_cast<size_t>(local_rank(rank))] = rank;
  }
}

NodeShape NodeShape::consecutive(std::span<const Rank> ranks_per_node) {
  std::vector<int32_t> names;
  for (size_t node = 0; node < ranks_per_node.size(); ++node) {
    names.insert(names.end(), static_cast<size_t>(ranks_per_node[node]), static_cast<int32_t>(node));
  }
  return NodeShape(names);
}

NodeShape NodeShape::uniform(Rank nodes, Rank ranks_per_node) {
  return consecutive(std::vector<Rank>(static_cast<size_t>(nodes), ranks_per_node));
}

}  // namespace gimbal
