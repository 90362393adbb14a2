// send and recv as schedules of one message per lane.
#include "collectives/algorithms.h"
#include "collectives/builder.h"
#include "collectives/passes.h"

namespace gimbal {

Schedule send_to(Rank peer, const CollectiveSpec& spec) {
  return link(build_lanes(spec, 1, [&](ScheduleBuilder& builder) { builder.send(peer, unit(0), BufferId::kInput); }));
}

Schedule recv_from(Rank peer, const CollectiveSpec& spec) {
  return link(
      build_lanes(spec, 1, [&](ScheduleBuilder& builder) { builder.recv(peer, unit(0), Payload::kFinal, BufferId::kOutput); }));
}

}  // namespace gimbal
