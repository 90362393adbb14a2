// Times the ways of one collective against each other on a communicator.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "collectives/way.h"
#include "runtime/communicator.h"

namespace gimbal {

struct MeasureBudget {
  double each_us = 8'000;  // for one way, rewriting inputs and reading outputs included
  size_t least = 9;        // repetitions, however long they take
  size_t most = 100;
};

// Collective. float32 sums of `bytes` per rank on ordinary memory. In every repetition the input is rewritten, a barrier
// passes, the operation is timed on each rank, the output is read; the ways take turns. Returns the median over repetitions of
// the slowest rank's time, in us and in the order of `ways`, equal on all ranks.
Result<std::vector<double>> measure_ways(Communicator& communicator, Collective collective, size_t bytes,
                                         std::span<const Way> ways, const MeasureBudget& budget = {});

}  // namespace gimbal
