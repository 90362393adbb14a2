// The sum of what several ranks send, added in the order of their numbers by one of them.
#pragma once

#include "collectives/builder.h"

namespace gimbal {

// Source number i of `count` is peer(i); number `own` is this rank's own input. 4 sources, own = 2:
//   scratch = 0 received,  scratch = 1 received + scratch,  scratch = scratch + input,  dst = 3 received + scratch
// Sources 0 and 1 begin with their own input: addition commutes, so 1 + 0 is 0 + 1. So does, out of order, an input that is a
// sum itself, because it lies in the scratch.
template <typename Peer>
void add_in_rank_order(ScheduleBuilder& builder, Rank count, Rank own, const Peer& peer, Units units, BufferId dst) {
  const bool own_first = own < 2 || builder.input_is_sum();
  const Rank last = own_first && own == count - 1 ? count - 2 : count - 1;
  bool started = false;
  for (Rank source = 0; source < count; ++source) {
    const BufferId sum = source == last ? dst : BufferId::kScratch;
    if (source == own) {
      if (!own_first) builder.reduce(units, sum);
    } else if (started || own_first) {
      builder.recv_reduce(peer(source), units, Payload::kRaw, started ? BufferId::kScratch : BufferId::kInput, sum);
      started = true;
    } else {
      builder.recv(peer(source), units, Payload::kRaw, sum);
      started = true;
    }
  }
}

}  // namespace gimbal
