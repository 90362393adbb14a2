// How the clocks of a communicator's hosts stand to each other, so that what their ranks recorded can be put on one time line.
#pragma once

#include "base/deadline.h"
#include "base/status.h"
#include "base/types.h"
#include "runtime/flight_recorder.h"
#include "transport/bootstrap.h"

namespace gimbal {

// Collective over the control connections. Ranks of rank 0's node have its clock; each other one asks rank 0 a few times and
// keeps the answer that came soonest.
Result<ClockOffset> measure_clock(Bootstrap& mesh, Rank rank, Deadline deadline);

}  // namespace gimbal
