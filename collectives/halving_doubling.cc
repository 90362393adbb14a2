// Recursive halving and doubling for any number of ranks, nearest partner first, so that every part is added along the
// left-complete tree of left_complete_tree.h and the result is the deterministic mode's.
#include "collectives/algorithms.h"
#include "collectives/builder.h"
#include "collectives/left_complete_tree.h"
#include "collectives/stages.h"

namespace gimbal {
namespace {

// The parts that a value still holds: after `level` halvings the one half, quarter, ... that the low bits of the value choose.
Units kept(const LeftCompleteTree& tree, uint32_t value, uint32_t level) {
  Units units = {0, tree.values()};
  for (uint32_t bit = 0; bit < level; ++bit) {
    units.count /= 2;
    if ((value >> bit & 1) != 0) units.first += units.count;
  }
  return units;
}

void halve_and_double(ScheduleBuilder& builder, const LeftCompleteTree& tree, uint32_t value) {
  for (uint32_t level = 0; level < tree.levels(); ++level) {
    const uint32_t partner = value ^ (1U << level);
    const bool first = level == 0;
    const bool last = level == tree.levels() - 1;
    const BufferId src = first && !tree.is_paired(value) ? BufferId::kInput : BufferId::kScratch;
    builder.send(tree.first_rank(partner), kept(tree, partner, level + 1), src);
    builder.recv_reduce(tree.first_rank(partner), kept(tree, value, level + 1),
                        first && !tree.is_paired(partner) ? Payload::kRaw : Payload::kPartial, src,
                        last ? BufferId::kOutput : BufferId::kScratch);
  }
  for (uint32_t level = tree.levels(); level-- > 0;) {
    const uint32_t partner = value ^ (1U << level);
    builder.send(tree.first_rank(partner), kept(tree, value, level + 1), BufferId::kOutput);
    builder.recv(tree.first_rank(partner), kept(tree, partner, level + 1), Payload::kFinal, BufferId::kOutput);
  }
}

void all_reduce(ScheduleBuilder& builder, Rank nranks, Rank rank) {
  const LeftCompleteTree tree(nranks);
  const uint32_t value = tree.value_of(rank);
  const Rank first = tree.first_rank(value);
  const Units all = {0, tree.values()};
  if (rank != first) {
    builder.send(first, all, BufferId::kInput);
    return builder.recv(first, all, Payload::kFinal, BufferId::kOutput);
  }
  if (tree.is_paired(value)) builder.recv_reduce(rank + 1, all, Payload::kRaw, BufferId::kInput, BufferId::kScratch);
  halve_and_double(builder, tree, value);
  if (tree.is_paired(value)) builder.send(rank + 1, all, BufferId::kOutput);
}

}  // namespace

// 4 ranks, parts exchanged (+ = added there):
//   level 0   0→1: 23    1→0: 01    2→3: 23    3→2: 01
//   level 1   0→2: 1+    2→0: 0+    1→3: 3+    3→1: 2+
//   level 1   0→2: 0     2→0: 1     1→3: 2     3→1: 3
//   level 0   0→1: 01    1→0: 23    2→3: 01    3→2: 23
// A paired rank (5 ranks: 0 and 1 share a value) gives its input to its neighbour before and gets the result after.
Schedule halving_doubling_all_reduce(const CollectiveSpec& spec, Rank rank) {
  const uint32_t units = LeftCompleteTree(spec.nranks).values();
  return build_lanes(spec, units, [&](ScheduleBuilder& builder) {
    if (spec.nranks == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    all_reduce(builder, spec.nranks, rank);
  });
}

std::vector<Stage> halving_doubling_stages(Rank nranks, Rank rank) {
  return {{0, [=](ScheduleBuilder& builder) { all_reduce(builder, nranks, rank); }}};
}

}  // namespace gimbal
