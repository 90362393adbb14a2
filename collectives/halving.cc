// Recursive halving to blocks, nearest partner first: reduce-scatter along the left-complete tree for any number of ranks.
#include "collectives/algorithms.h"
#include "collectives/builder.h"
#include "collectives/left_complete_tree.h"
#include "collectives/stages.h"

namespace gimbal {
namespace {

// Calls body(run) for every run of neighbouring blocks whose value ends in the same `bits` bits as `value`.
template <typename Body>
void for_each_run(const LeftCompleteTree& tree, Rank nranks, uint32_t value, uint32_t bits, const Body& body) {
  const uint32_t mask = (1U << bits) - 1;
  Units run = {0, 0};
  for (Rank block = 0; block < nranks; ++block) {
    if (((tree.value_of(block) ^ value) & mask) != 0) continue;
    const auto index = static_cast<uint32_t>(block);
    if (run.count > 0 && run.first + run.count != index) {
      body(run);
      run.count = 0;
    }
    if (run.count == 0) run.first = index;
    ++run.count;
  }
  body(run);
}

// 4 ranks, blocks exchanged (+ = added there); a paired rank is served by its neighbour:
//   level 0   0→1: 1, 3   1→0: 0, 2   2→3: 1, 3   3→2: 0, 2
//   level 1   0→2: 2+     2→0: 0+     1→3: 3+     3→1: 1+
void reduce_scatter(ScheduleBuilder& builder, Rank nranks, Rank rank) {
  const Rank n = nranks;
  const LeftCompleteTree tree(n);
  const uint32_t value = tree.value_of(rank);
  const Rank first = tree.first_rank(value);
  const bool paired = tree.is_paired(value);
  const Units all = {0, static_cast<uint32_t>(n)};
  if (rank != first) {
    builder.send(first, all, BufferId::kInput);
    return builder.recv(first, unit(rank), Payload::kPartial, BufferId::kOutput);
  }
  if (paired) builder.recv_reduce(rank + 1, all, Payload::kRaw, BufferId::kInput, BufferId::kScratch);
  for (uint32_t level = 0; level < tree.levels(); ++level) {
    const uint32_t partner = value ^ (1U << level);
    const Rank peer = tree.first_rank(partner);
    const BufferId src = level == 0 && !paired ? BufferId::kInput : BufferId::kScratch;
    const Payload payload = level == 0 && !tree.is_paired(partner) ? Payload::kRaw : Payload::kPartial;
    if (level < tree.levels() - 1) {
      for_each_run(tree, n, partner, level + 1, [&](Units run) { builder.send(peer, run, src); });
      for_each_run(tree, n, value, level + 1,
                   [&](Units run) { builder.recv_reduce(peer, run, payload, src, BufferId::kScratch); });
      continue;
    }
    // What remains is the own block and that of the paired rank, for which the places differ.
    builder.send(peer, unit(peer), src);
    if (tree.is_paired(partner)) builder.send(peer, unit(peer + 1), src);
    builder.recv_reduce(peer, unit(rank), payload, src, BufferId::kOutput);
    if (paired) builder.recv_reduce(peer, unit(rank + 1), payload, src, BufferId::kScratch);
  }
  if (paired) builder.send(rank + 1, unit(rank + 1), BufferId::kScratch);
}

}  // namespace

Schedule halving_reduce_scatter(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, static_cast<uint32_t>(spec.nranks), [&](ScheduleBuilder& builder) {
    if (spec.nranks == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    reduce_scatter(builder, spec.nranks, rank);
  });
}

std::vector<Stage> halving_stages(Rank nranks, Rank rank) {
  return {{0, [=](ScheduleBuilder& builder) { reduce_scatter(builder, nranks, rank); }}};
}

}  // namespace gimbal
