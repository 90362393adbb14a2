// A few milliseconds of measuring when a communicator is made: whether a line is better read by every rank (one shot) or
// written to every rank (two shots) depends on how near the CPUs are to each other in cache, which virtual machines do not
// tell.
#pragma once

#include <vector>

#include "base/status.h"
#include "runtime/choice.h"

namespace gimbal {

class Communicator;

// Collective. Runs every candidate of Choice on internal buffers; returns rank 0's verdict, equal on all ranks.
Result<MeasuredChoice> calibrate(Communicator& communicator);

// The index of the least median of candidates' times; times[candidate][repetition], none empty.
size_t fastest(const std::vector<std::vector<uint64_t>>& times);

}  // namespace gimbal
