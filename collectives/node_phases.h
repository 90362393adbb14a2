// What the ranks of one node do among themselves in the hierarchical algorithms: add what each of them carries, and spread it.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/builder.h"
#include "collectives/node_shape.h"

namespace gimbal {

// One rank's place in its node, and what each member carries there (node_shape.h), in *rounds*: in one round every member has
// one part at most. Without blocks a part is a slice; with blocks (reduce_scatter, all_gather) it is the block of that member
// of a node whose local rank is the slice, for every node in turn.
class NodePlace {
 public:
  // units_per_slice: without blocks, the units into which a slice is cut.
  NodePlace(const CollectiveSpec& spec, const NodeShape& shape, Rank rank, uint32_t units_per_slice = 1);

  [[nodiscard]] const NodeShape& shape() const { return *shape_; }
  [[nodiscard]] bool has_blocks() const { return has_blocks_; }
  [[nodiscard]] Rank node() const { return node_; }
  [[nodiscard]] Rank local() const { return local_; }
  [[nodiscard]] Rank size() const { return shape_->size_of(node_); }
  [[nodiscard]] Rank member(Rank local) const { return shape_->members(node_)[static_cast<size_t>(local)]; }
  [[nodiscard]] Units units_of_slice(Rank slice) const { return {static_cast<uint32_t>(slice) * units_, units_}; }

  // The parts of all rounds that a member carries: body(units).
  template <typename Body>
  void for_each_part(Rank local, const Body& body) const {
    for (Rank round = 0; round < rounds_; ++round) {
      if (const std::optional<Units> units = part(round, local)) body(*units);
    }
  }
  // Calls body(slice) for the slices that this rank carries.
  template <typename Body>
  void for_each_slice(const Body& body) const {
    for (Rank slice = local_; slice < shape_->slices(); slice += size()) body(slice);
  }

  [[nodiscard]] Rank rounds() const { return rounds_; }
  [[nodiscard]] std::optional<Units> part(Rank round, Rank local) const;

 private:
  const NodeShape* shape_;
  bool has_blocks_;
  Rank node_;
  Rank local_;
  uint32_t units_;
  Rank turns_;  // slices of a member, of the largest node's
  Rank rounds_;
};

// Every member adds its parts from all members' inputs, in rank order: one hop.
void add_in_node(ScheduleBuilder& builder, const NodePlace& place, BufferId dst);

// The same by recursive halving, nearest member first, so that it is added along the tree of left_complete_tree.h. For nodes of
// a power of two.
void add_in_node_by_halving(ScheduleBuilder& builder, const NodePlace& place, BufferId dst);

// Every member sends its parts to all others; nobody sends to `except`, the root of a broadcast, which has everything in its
// input. A rank's own block of an all_gather goes out of its input, too, everything else out of the output.
void spread_in_node(ScheduleBuilder& builder, const NodePlace& place, Rank except = kNoRank);

// The stages of `between` for all slices that this rank carries, on their rails, one moment later.
Stage on_rails(const NodePlace& place, const Stage& between);

}  // namespace gimbal
