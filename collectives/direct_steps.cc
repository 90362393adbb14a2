#include "collectives/direct_steps.h"

#include "collectives/builder.h"

namespace gimbal {
namespace {

// All of the vector from every peer, added to the own input.
void add_everything(ScheduleBuilder& builder, const CollectiveSpec& spec, Rank rank) {
  for (Rank i = 1; i < spec.nranks; ++i) {
    const Rank peer = (rank + i) % spec.nranks;
    builder.recv_reduce(peer, unit(0), Payload::kRaw, i == 1 ? BufferId::kInput : BufferId::kScratch,
                        i == spec.nranks - 1 ? BufferId::kOutput : BufferId::kScratch);
  }
  if (spec.nranks == 1) builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
}

// 4 ranks, the vector on its way:   0→1 0→2 0→3   1→2 1→3 1→0   2→3 2→0 2→1   3→0 3→1 3→2
Schedule one_shot_all_reduce(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, 1, [&](ScheduleBuilder& builder) {
    for (Rank i = 1; i < spec.nranks; ++i) builder.send((rank + i) % spec.nranks, unit(0), BufferId::kInput);
    add_everything(builder, spec, rank);
  });
}

// 4 ranks, root 1:   1→2 1→3 1→0
Schedule flat_broadcast(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, 1, [&](ScheduleBuilder& builder) {
    if (rank != spec.root) return builder.recv(spec.root, unit(0), Payload::kFinal, BufferId::kOutput);
    for (Rank i = 1; i < spec.nranks; ++i) builder.send((rank + i) % spec.nranks, unit(0), BufferId::kInput);
    builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
  });
}

// 4 ranks, root 1:   2→1 3→1 0→1
Schedule flat_reduce(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, 1, [&](ScheduleBuilder& builder) {
    if (rank != spec.root) return builder.send(spec.root, unit(0), BufferId::kInput);
    add_everything(builder, spec, rank);
  });
}

constexpr Algorithm kOneShotAllReduce = {kDirectAlgorithm, Collective::kAllReduce, one_shot_all_reduce,
                                         "every rank adds all inputs"};
constexpr Algorithm kFlatBroadcast = {kDirectAlgorithm, Collective::kBroadcast, flat_broadcast, "every rank reads the root's"};
constexpr Algorithm kFlatReduce = {kDirectAlgorithm, Collective::kReduce, flat_reduce, "the root adds all inputs"};

}  // namespace

const Algorithm* direct_steps(Collective collective, Protocol protocol) {
  if (!direct_serves(collective, protocol, 0)) return nullptr;
  switch (collective) {
    case Collective::kAllReduce:
      return protocol == Protocol::kTwoShots ? find_algorithm(collective, "all_pairs") : &kOneShotAllReduce;
    case Collective::kBarrier:  // an all_reduce of nothing
      return &kOneShotAllReduce;
    case Collective::kBroadcast:
      return &kFlatBroadcast;
    case Collective::kReduce:
      return &kFlatReduce;
    case Collective::kGather:
    case Collective::kScatter:
      return find_algorithm(collective, "linear");
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return find_algorithm(collective, "all_pairs");
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      return nullptr;
  }
  return nullptr;
}

}  // namespace gimbal
