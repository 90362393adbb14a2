// Which ranks share a node: what hierarchical schedules are built from. Any placement will do: nodes of different sizes, ranks
// of a node that are not neighbours.
//
// Words. The ranks of a node are its members, in ascending order; a rank's place among them is its local rank. *Slices* are as
// many as the largest node has members: every node holds all of them, and slice s is carried on a node by the member whose
// local rank is s modulo their number. The carriers of one slice, one on each node, are a *rail*: they exchange the slice
// between the nodes (with a NIC per member, over a NIC of their own).
//
// 5 ranks, nodes {0, 1, 2} and {3, 4}:   slice 0: 0, 3    slice 1: 1, 4    slice 2: 2, 3
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace gimbal {

class NodeShape {
 public:
  // names[r] is the node of rank r, by any number; ranks with the same number share a node. Nodes are numbered in the order of
  // their first ranks.
  explicit NodeShape(std::span<const int32_t> names);
  // Node k has the next ranks_per_node[k] ranks.
  static NodeShape consecutive(std::span<const Rank> ranks_per_node);
  static NodeShape uniform(Rank nodes, Rank ranks_per_node);

  [[nodiscard]] Rank nranks() const { return static_cast<Rank>(node_of_.size()); }
  [[nodiscard]] Rank nodes() const { return static_cast<Rank>(first_member_.size()) - 1; }
  [[nodiscard]] Rank slices() const { return slices_; }

  [[nodiscard]] Rank node_of(Rank rank) const { return node_of_[static_cast<size_t>(rank)]; }
  [[nodiscard]] Rank local_rank(Rank rank) const { return local_rank_[static_cast<size_t>(rank)]; }
  [[nodiscard]] std::span<const Rank> members(Rank node) const {
    const uint32_t first = first_member_[static_cast<size_t>(node)];
    return std::span(members_).subspan(first, first_member_[static_cast<size_t>(node) + 1] - first);
  }
  [[nodiscard]] Rank size_of(Rank node) const { return static_cast<Rank>(members(node).size()); }
  [[nodiscard]] Rank carrier(Rank node, Rank slice) const { return members(node)[static_cast<size_t>(slice % size_of(node))]; }

 private:
  std::vector<Rank> node_of_;
  std::vector<Rank> local_rank_;
  std::vector<Rank> members_;           // of all nodes, one node after the other
  std::vector<uint32_t> first_member_;  // of each node in members_, and the end
  Rank slices_ = 0;
};

}  // namespace gimbal
