// All-reduce over two binary trees, each for one half of the vector. A rank is an inner node of one tree at most and a leaf of
// the other, so that with the pieces pipelined every link carries about the vector once each way, at a depth of log2 n.
#include <bit>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/builder.h"
#include "collectives/stages.h"

namespace gimbal {
namespace {

// The binary tree in which the depth of an index is given by its trailing zero bits: odd indices are leaves, 0 is the root, and
// its one child is the largest power of two.
Rank parent_index(Rank index, Rank nranks) {
  if (index == 0) return kNoRank;
  const auto low = static_cast<Rank>(1U << std::countr_zero(static_cast<uint32_t>(index)));
  const Rank up = (index ^ low) | (2 * low);
  return up < nranks ? up : index ^ low;
}

// One of the two trees. The second is the first shifted by one rank (odd n) or mirrored (even n): leaves become inner nodes.
class Tree {
 public:
  Tree(Rank nranks, bool second, Rank rank) : nranks_(nranks), second_(second), rank_(rank) {
    // A binary tree has few children, and they lie a power of two away.
    for (Rank distance = 1; distance < nranks; distance *= 2) {
      for (const Rank child : {index(rank) - distance, index(rank) + distance}) {
        if (child > 0 && child < nranks && parent_index(child, nranks) == index(rank)) children_.push_back(rank_at(child));
      }
    }
    for (Rank at = index(rank); at != 0; at = parent_index(at, nranks)) ++depth_;
  }

  [[nodiscard]] Rank parent() const {
    const Rank parent = parent_index(index(rank_), nranks_);
    return parent == kNoRank ? kNoRank : rank_at(parent);
  }
  [[nodiscard]] const std::vector<Rank>& children() const { return children_; }
  [[nodiscard]] uint32_t depth() const { return depth_; }
  [[nodiscard]] bool is_leaf(Rank rank) const {
    const Rank at = index(rank);
    return at % 2 == 1;
  }

 private:
  [[nodiscard]] Rank index(Rank rank) const {
    if (!second_) return rank;
    return nranks_ % 2 == 1 ? (rank + nranks_ - 1) % nranks_ : nranks_ - 1 - rank;
  }
  [[nodiscard]] Rank rank_at(Rank index) const {
    if (!second_) return index;
    return nranks_ % 2 == 1 ? (index + 1) % nranks_ : nranks_ - 1 - index;
  }

  Rank nranks_;
  bool second_;
  Rank rank_;
  uint32_t depth_ = 0;
  std::vector<Rank> children_;
};

void step_up(ScheduleBuilder& builder, const Tree& tree, Units half) {
  BufferId sum = BufferId::kInput;
  for (const Rank& child : tree.children()) {
    const bool last = tree.parent() == kNoRank && &child == &tree.children().back();
    const BufferId dst = last ? BufferId::kOutput : BufferId::kScratch;
    builder.recv_reduce(child, half, tree.is_leaf(child) ? Payload::kRaw : Payload::kPartial, sum, dst);
    sum = dst;
  }
  if (tree.parent() != kNoRank) builder.send(tree.parent(), half, sum);
}

void step_down(ScheduleBuilder& builder, const Tree& tree, Units half) {
  if (tree.parent() != kNoRank) builder.recv(tree.parent(), half, Payload::kFinal, BufferId::kOutput);
  for (const Rank child : tree.children()) builder.send(child, half, BufferId::kOutput);
}

}  // namespace

// 4 ranks; half 0 up and down the left tree, half 1 the right one:
//        0                3        depth 0
//        |                |
//        2                1        depth 1
//       / \              / \       |
//      1   3            2   0      depth 2
// Pieces follow one another like a wave: a rank at depth d sends piece p up at time p + height - d and down at p + height + d,
// whatever it is sent at time t is received at t + 1. Steps are recorded in the order of these times: a rank never waits for
// one that waits for it, and pieces going up share the way with those coming down.
Schedule double_tree_all_reduce(const CollectiveSpec& spec, Rank rank) {
  if (spec.nranks > 1) return build_waves(spec, 2, double_tree_stages(spec.nranks, rank));
  return build_lanes(spec, 2, [](ScheduleBuilder& builder) { builder.copy({0, 2}, BufferId::kInput, BufferId::kOutput); });
}

std::vector<Stage> double_tree_stages(Rank nranks, Rank rank) {
  const auto height = static_cast<uint32_t>(std::bit_width(static_cast<uint32_t>(nranks)));
  std::vector<Stage> up;
  std::vector<Stage> down;
  for (const uint32_t half : {0U, 1U}) {
    const Tree tree(nranks, half == 1, rank);
    up.push_back({height - tree.depth(), [tree, half](ScheduleBuilder& builder) { step_up(builder, tree, {half}); }});
    down.push_back({height + tree.depth(), [tree, half](ScheduleBuilder& builder) { step_down(builder, tree, {half}); }});
  }
  up.insert(up.end(), down.begin(), down.end());
  return up;
}

}  // namespace gimbal
