// Chains: from rank to rank, each link carrying every byte once. One piece goes on while the next arrives, so that with enough
// pieces (or slices of a fused step) a chain costs hardly more than one link.
#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace gimbal {

// 4 ranks, root 1:   1→2   2→3   3→0
Schedule chain_broadcast(const CollectiveSpec& spec, Rank rank) {
  const Rank n = spec.nranks;
  const Rank next = (rank + 1) % n;
  return build_lanes(spec, 1, [&](ScheduleBuilder& builder) {
    if (rank != spec.root) builder.recv((rank - 1 + n) % n, unit(0), Payload::kFinal, BufferId::kOutput);
    if (next != spec.root) builder.send(next, unit(0), rank == spec.root ? BufferId::kInput : BufferId::kOutput);
    if (rank == spec.root) builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
  });
}

// 4 ranks, root 1 (+ = added there):   2→3   3→0+   0→1+
Schedule chain_reduce(const CollectiveSpec& spec, Rank rank) {
  const Rank n = spec.nranks;
  const Rank prev = (rank - 1 + n) % n;
  const Rank next = (rank + 1) % n;
  const bool first = prev == spec.root;
  return build_lanes(spec, 1, [&](ScheduleBuilder& builder) {
    if (n == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    if (first) return builder.send(next, unit(0), BufferId::kInput);
    const Payload payload = (prev - 1 + n) % n == spec.root ? Payload::kRaw : Payload::kPartial;
    if (rank == spec.root) return builder.recv_reduce(prev, unit(0), payload, BufferId::kInput, BufferId::kOutput);
    builder.recv_reduce(prev, unit(0), payload, BufferId::kInput, BufferId::kScratch);
    builder.send(next, unit(0), BufferId::kScratch);
  });
}

}  // namespace gimbal
