// Direct exchange: every rank talks to every other, one hop for each phase. The owner of a block adds in rank order, so that
// the sum is that of a loop over the ranks, whatever the size. (The left-complete tree needs log2 n accumulators per chunk and
// scratch has one; for four ranks and more it is left to halving.)
#include "collectives/algorithms.h"
#include "collectives/builder.h"
#include "collectives/rank_order_sum.h"
#include "collectives/stages.h"

namespace gimbal {
namespace {

// Peers in the order in which `rank` sends: its successor first, so that at each moment every rank is the target of one.
Rank target(Rank nranks, Rank rank, Rank i) { return (rank + i) % nranks; }
Rank origin(Rank nranks, Rank rank, Rank i) { return (rank - i + nranks) % nranks; }

void reduce_scatter(ScheduleBuilder& builder, Rank nranks, Rank rank) {
  for (Rank i = 1; i < nranks; ++i) {
    const Rank peer = target(nranks, rank, i);
    builder.send(peer, unit(peer), BufferId::kInput);
  }
  add_in_rank_order(
      builder, nranks, rank, [](Rank source) { return source; }, unit(rank), BufferId::kOutput);
}

// 4 ranks, block on its way:
//   0→1: 0   1→2: 1   2→3: 2   3→0: 3
//   0→2: 0   1→3: 1   2→0: 2   3→1: 3
//   0→3: 0   1→0: 1   2→1: 2   3→2: 3
void all_gather(ScheduleBuilder& builder, Rank nranks, Rank rank, BufferId own) {
  for (Rank i = 1; i < nranks; ++i) {
    builder.send(target(nranks, rank, i), unit(rank), own);
    const Rank peer = origin(nranks, rank, i);
    builder.recv(peer, unit(peer), Payload::kFinal, BufferId::kOutput);
  }
}

void all_reduce(ScheduleBuilder& builder, Rank nranks, Rank rank) {
  reduce_scatter(builder, nranks, rank);
  all_gather(builder, nranks, rank, BufferId::kOutput);
}

}  // namespace

// 4 ranks, part on its way, then as in all_gather():
//   0→1: 1   1→2: 2   2→3: 3   3→0: 0
//   0→2: 2   1→3: 3   2→0: 0   3→1: 1
//   0→3: 3   1→0: 0   2→1: 1   3→2: 2      rank r then adds part r in rank order
Schedule all_pairs_all_reduce(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, static_cast<uint32_t>(spec.nranks), [&](ScheduleBuilder& builder) {
    if (spec.nranks == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    all_reduce(builder, spec.nranks, rank);
  });
}

// 4 ranks, the vector on its way:
//   0→1   1→2   2→3   3→0
//   0→2   1→3   2→0   3→1
//   0→3   1→0   2→1   3→2      every rank then adds all in rank order
Schedule exchange_all_reduce(const CollectiveSpec& spec, Rank rank) {
  const Rank n = spec.nranks;
  return build_lanes(spec, 1, [&](ScheduleBuilder& builder) {
    if (n == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    for (Rank i = 1; i < n; ++i) builder.send(target(n, rank, i), unit(0), BufferId::kInput);
    if (n == 2) {
      // In place a sum that is formed where it arrives would have to wait until all is sent, on both ranks.
      builder.recv(1 - rank, unit(0), Payload::kRaw, BufferId::kScratch);
      return builder.reduce(unit(0), BufferId::kOutput);
    }
    add_in_rank_order(
        builder, n, rank, [](Rank source) { return source; }, unit(0), BufferId::kOutput);
  });
}

std::vector<Stage> all_pairs_all_reduce_stages(Rank nranks, Rank rank) {
  return {{0, [=](ScheduleBuilder& builder) { all_reduce(builder, nranks, rank); }}};
}

Schedule all_pairs_reduce_scatter(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, static_cast<uint32_t>(spec.nranks), [&](ScheduleBuilder& builder) {
    if (spec.nranks == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    reduce_scatter(builder, spec.nranks, rank);
  });
}

Schedule all_pairs_all_gather(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, static_cast<uint32_t>(spec.nranks), [&](ScheduleBuilder& builder) {
    all_gather(builder, spec.nranks, rank, BufferId::kInput);
    builder.copy(unit(rank), BufferId::kInput, BufferId::kOutput);
  });
}

// 4 ranks, block (from, to) on its way:
//   0→1: 01   1→2: 12   2→3: 23   3→0: 30
//   0→2: 02   1→3: 13   2→0: 20   3→1: 31
//   0→3: 03   1→0: 10   2→1: 21   3→2: 32
Schedule all_pairs_all_to_all(const CollectiveSpec& spec, Rank rank) {
  const Rank n = spec.nranks;
  return build_lanes(spec, block_count(spec.collective, n), [&](ScheduleBuilder& builder) {
    builder.copy(unit(rank * n + rank), BufferId::kInput, BufferId::kOutput);
    for (Rank i = 1; i < n; ++i) {
      const Rank to = target(n, rank, i);
      const Rank from = origin(n, rank, i);
      builder.send(to, unit(rank * n + to), BufferId::kInput);
      builder.recv(from, unit(from * n + rank), Payload::kFinal, BufferId::kOutput);
    }
  });
}

std::vector<Stage> all_pairs_reduce_scatter_stages(Rank nranks, Rank rank) {
  return {{0, [=](ScheduleBuilder& builder) { reduce_scatter(builder, nranks, rank); }}};
}

std::vector<Stage> all_pairs_all_gather_stages(Rank nranks, Rank rank) {
  return {{0, [=](ScheduleBuilder& builder) { all_gather(builder, nranks, rank, BufferId::kInput); }}};
}

}  // namespace gimbal
