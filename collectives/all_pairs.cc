// Direct exchange: every rank talks to every other, one hop for each phase. The owner of a block adds in rank order, so that
// the sum is that of a loop over the ranks, whatever the size. (The left-complete tree needs log2 n accumulators per chunk and
// scratch has one; for four ranks and more it is left to halving.)
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace gimbal {
namespace {

// Peers in the order in which `rank` sends: its successor first, so that at each moment every rank is the target of one.
Rank target(const CollectiveSpec& spec, Rank rank, Rank i) { return (rank + i) % spec.nranks; }
Rank origin(const CollectiveSpec& spec, Rank rank, Rank i) { return (rank - i + spec.nranks) % spec.nranks; }

// Adds block `rank` in rank order. Rank 2 of 4:
//   scratch = 0 received,  scratch = 1 received + scratch,  scratch = scratch + input,  output = 3 received + scratch
// Ranks 0 and 1 begin with their own input: addition commutes, so 1 + 0 is 0 + 1.
void add_in_rank_order(ScheduleBuilder& builder, Rank nranks, Rank rank) {
  const Units block = unit(rank);
  const bool own_first = rank < 2;
  bool started = false;
  for (Rank source = 0; source < nranks; ++source) {
    const BufferId dst = source == nranks - 1 || (own_first && nranks == 2) ? BufferId::kOutput : BufferId::kScratch;
    if (source == rank) {
      if (!own_first) builder.reduce(block, dst);
    } else if (started || own_first) {
      builder.recv_reduce(source, block, Payload::kRaw, started ? BufferId::kScratch : BufferId::kInput, dst);
      started = true;
    } else {
      builder.recv(source, block, Payload::kRaw, dst);
      started = true;
    }
  }
}

void reduce_scatter(ScheduleBuilder& builder, const CollectiveSpec& spec, Rank rank) {
  for (Rank i = 1; i < spec.nranks; ++i) {
    const Rank peer = target(spec, rank, i);
    builder.send(peer, unit(peer), BufferId::kInput);
  }
  add_in_rank_order(builder, spec.nranks, rank);
}

// 4 ranks, block on its way:
//   0→1: 0   1→2: 1   2→3: 2   3→0: 3
//   0→2: 0   1→3: 1   2→0: 2   3→1: 3
//   0→3: 0   1→0: 1   2→1: 2   3→2: 3
void all_gather(ScheduleBuilder& builder, const CollectiveSpec& spec, Rank rank, BufferId own) {
  for (Rank i = 1; i < spec.nranks; ++i) {
    builder.send(target(spec, rank, i), unit(rank), own);
    const Rank peer = origin(spec, rank, i);
    builder.recv(peer, unit(peer), Payload::kFinal, BufferId::kOutput);
  }
}

}  // namespace

// 4 ranks, part on its way, then as in all_gather():
//   0→1: 1   1→2: 2   2→3: 3   3→0: 0
//   0→2: 2   1→3: 3   2→0: 0   3→1: 1
//   0→3: 3   1→0: 0   2→1: 1   3→2: 2      rank r then adds part r in rank order
Schedule all_pairs_all_reduce(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, static_cast<uint32_t>(spec.nranks), [&](ScheduleBuilder& builder) {
    if (spec.nranks == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    reduce_scatter(builder, spec, rank);
    all_gather(builder, spec, rank, BufferId::kOutput);
  });
}

Schedule all_pairs_reduce_scatter(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, static_cast<uint32_t>(spec.nranks), [&](ScheduleBuilder& builder) {
    if (spec.nranks == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    reduce_scatter(builder, spec, rank);
  });
}

Schedule all_pairs_all_gather(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, static_cast<uint32_t>(spec.nranks), [&](ScheduleBuilder& builder) {
    all_gather(builder, spec, rank, BufferId::kInput);
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
      const Rank to = target(spec, rank, i);
      const Rank from = origin(spec, rank, i);
      builder.send(to, unit(rank * n + to), BufferId::kInput);
      builder.recv(from, unit(from * n + rank), Payload::kFinal, BufferId::kOutput);
    }
  });
}

}  // namespace gimbal
