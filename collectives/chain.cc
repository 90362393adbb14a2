// Chains: from rank to rank, each link carrying every byte once. One piece goes on while the next arrives, so that with enough
// pieces (or slices of a fused step) a chain costs hardly more than one link.
#include "collectives/algorithms.h"
#include "collectives/builder.h"
#include "collectives/stages.h"

namespace gimbal {

namespace {

// 4 ranks, root 1:   1→2   2→3   3→0
void pass_along(ScheduleBuilder& builder, Rank nranks, Rank root, Rank rank, BufferId at_root) {
  const Rank next = (rank + 1) % nranks;
  if (rank != root) builder.recv((rank - 1 + nranks) % nranks, unit(0), Payload::kFinal, BufferId::kOutput);
  if (next != root) builder.send(next, unit(0), rank == root ? at_root : BufferId::kOutput);
}

}  // namespace

Schedule chain_broadcast(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, 1, [&](ScheduleBuilder& builder) {
    pass_along(builder, spec.nranks, spec.root, rank, BufferId::kInput);
    if (rank == spec.root) builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
  });
}

std::vector<Stage> chain_broadcast_stages(Rank nranks, Rank root, Rank rank, BufferId at_root) {
  return {{0, [=](ScheduleBuilder& builder) { pass_along(builder, nranks, root, rank, at_root); }}};
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
