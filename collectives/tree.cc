// Rooted trees: broadcast down a binomial tree, reduce up the left-complete tree.
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/builder.h"
#include "collectives/left_complete_tree.h"
#include "collectives/stages.h"

namespace gimbal {

namespace {

// 4 ranks, root 0 (others: rank numbers turned by the root):
//   hop 1   0→2
//   hop 2   0→1   2→3
void pass_down(ScheduleBuilder& builder, Rank nranks, Rank root, Rank rank, BufferId at_root) {
  const Rank turned = (rank - root + nranks) % nranks;
  // Below a rank hang the ranks turned + 1, 2, 4, ..., up to half of the distance to its parent.
  Rank parent_distance = 1;
  while (parent_distance < nranks && (turned & parent_distance) == 0) parent_distance *= 2;
  const Rank parent = (rank - parent_distance + nranks) % nranks;
  if (rank != root) builder.recv(parent, unit(0), Payload::kFinal, BufferId::kOutput);
  for (Rank distance = parent_distance / 2; distance > 0; distance /= 2) {
    const Rank child = (rank + distance) % nranks;
    if (turned + distance < nranks) builder.send(child, unit(0), rank == root ? at_root : BufferId::kOutput);
  }
}

}  // namespace

Schedule tree_broadcast(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, 1, [&](ScheduleBuilder& builder) {
    pass_down(builder, spec.nranks, spec.root, rank, BufferId::kInput);
    if (rank == spec.root) builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
  });
}

std::vector<Stage> tree_broadcast_stages(Rank nranks, Rank root, Rank rank, BufferId at_root) {
  return {{0, [=](ScheduleBuilder& builder) { pass_down(builder, nranks, root, rank, at_root); }}};
}

namespace {

// One addition on a rank's way up: the peer that gives its sum, and whether that is a single input.
struct Child {
  Rank peer;
  bool is_leaf;
};
struct Ascent {
  std::vector<Child> children;
  Rank parent = kNoRank;
};

// Of the two ranks that could carry on with a node's sum, the root if it is in the node, else the one of the first value.
// Addition commutes, so that who adds does not change the sum.
Rank carrier(const LeftCompleteTree& tree, Rank root, uint32_t value, uint32_t level) {
  if (tree.value_of(root) >> level == value >> level) return root;
  return tree.first_rank(value >> level << level);
}

Ascent climb(const LeftCompleteTree& tree, Rank root, Rank rank) {
  Ascent ascent;
  const uint32_t value = tree.value_of(rank);
  if (tree.is_paired(value)) {
    const Rank partner = rank ^ 1;
    if (carrier(tree, root, value, 0) != rank) {
      ascent.parent = partner;
      return ascent;
    }
    ascent.children.push_back({partner, true});
  }
  for (uint32_t level = 0; level < tree.levels(); ++level) {
    const uint32_t sibling = value ^ (1U << level);
    const Rank peer = carrier(tree, root, sibling, level);
    if (carrier(tree, root, value, level + 1) != rank) {
      ascent.parent = peer;
      return ascent;
    }
    ascent.children.push_back({peer, level == 0 && !tree.is_paired(sibling)});
  }
  return ascent;
}

}  // namespace

// 4 ranks (+ = added there):
//   root 0:   1→0, 3→2, then 2→0+        root 3:   1→0, 2→3, then 0→3+
Schedule tree_reduce(const CollectiveSpec& spec, Rank rank) {
  const Ascent ascent = climb(LeftCompleteTree(spec.nranks), spec.root, rank);
  return build_lanes(spec, 1, [&](ScheduleBuilder& builder) {
    if (spec.nranks == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    BufferId sum = BufferId::kInput;
    for (const Child& child : ascent.children) {
      const bool last = rank == spec.root && &child == &ascent.children.back();
      const BufferId dst = last ? BufferId::kOutput : BufferId::kScratch;
      builder.recv_reduce(child.peer, unit(0), child.is_leaf ? Payload::kRaw : Payload::kPartial, sum, dst);
      sum = dst;
    }
    if (ascent.parent != kNoRank) builder.send(ascent.parent, unit(0), sum);
  });
}

}  // namespace gimbal
