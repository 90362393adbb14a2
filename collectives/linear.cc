// Gather and scatter in one hop: the root's link carries all bytes in any algorithm, so that a tree would only save messages.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace gimbal {

// 4 ranks, root 1, block on its way:   2→1: 2   3→1: 3   0→1: 0
Schedule linear_gather(const CollectiveSpec& spec, Rank rank) {
  const Rank n = spec.nranks;
  return build_lanes(spec, static_cast<uint32_t>(n), [&](ScheduleBuilder& builder) {
    if (rank != spec.root) return builder.send(spec.root, unit(rank), BufferId::kInput);
    builder.copy(unit(rank), BufferId::kInput, BufferId::kOutput);
    for (Rank i = 1; i < n; ++i) {
      const Rank peer = (rank + i) % n;
      builder.recv(peer, unit(peer), Payload::kFinal, BufferId::kOutput);
    }
  });
}

// 4 ranks, root 1, block on its way:   1→2: 2   1→3: 3   1→0: 0
Schedule linear_scatter(const CollectiveSpec& spec, Rank rank) {
  const Rank n = spec.nranks;
  return build_lanes(spec, static_cast<uint32_t>(n), [&](ScheduleBuilder& builder) {
    if (rank != spec.root) return builder.recv(spec.root, unit(rank), Payload::kFinal, BufferId::kOutput);
    builder.copy(unit(rank), BufferId::kInput, BufferId::kOutput);
    for (Rank i = 1; i < n; ++i) {
      const Rank peer = (rank + i) % n;
      builder.send(peer, unit(peer), BufferId::kInput);
    }
  });
}

}  // namespace gimbal
