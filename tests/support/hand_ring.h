// A fused ring all-reduce written out by hand: the executor's own tests need no builder.
#pragma once

#include "collectives/schedule.h"

namespace gimbal::test {

// 4 ranks, chunk after each hop (+ = added here):
//   hop 1   0→1: 0    1→2: 1    2→3: 2    3→0: 3
//   hop 2   0→1: 3+   1→2: 0+   2→3: 1+   3→0: 2+
//   hop 3   0→1: 2+   1→2: 3+   2→3: 0+   3→0: 1+
inline Schedule hand_ring(Rank nranks, Rank rank) {
  Schedule ring;
  ring.chunk_count = static_cast<uint32_t>(nranks);
  const Rank next = (rank + 1) % nranks;
  const Rank previous = (rank + nranks - 1) % nranks;
  const auto chunk = [&](Rank hops) { return static_cast<uint32_t>((rank + 2 * nranks - hops) % nranks); };
  const auto add = [&](Op op, Payload payload, Payload sent, BufferId src, BufferId dst, Rank hops) {
    const bool only_sends = op == Op::kSend;
    const bool forwards = op == Op::kRecvSend || op == Op::kRecvReduceSend;
    ring.steps.push_back({op, payload, sent, src, dst, 0, 0, only_sends ? next : previous, forwards ? next : kNoRank,
                          chunk(hops), 1, only_sends ? kNoStep : 0});
  };
  add(Op::kSend, Payload::kRaw, Payload::kRaw, BufferId::kInput, BufferId::kNone, 0);
  for (Rank hop = 1; hop < nranks; ++hop) {
    const bool last = hop == nranks - 1;
    add(Op::kRecvReduceSend, hop == 1 ? Payload::kRaw : Payload::kPartial, last ? Payload::kFinal : Payload::kPartial,
        BufferId::kInput, last ? BufferId::kOutput : BufferId::kNone, hop);
  }
  for (Rank hop = 0; hop < nranks - 1; ++hop) {
    add(hop == nranks - 2 ? Op::kRecv : Op::kRecvSend, Payload::kFinal, Payload::kFinal, BufferId::kNone, BufferId::kOutput,
        hop);
  }
  return ring;
}

}  // namespace gimbal::test
