// Measures this machine with the ranks of one communicator: what `gimbal-topo tune` stores.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/status.h"
#include "runtime/communicator.h"
#include "runtime/measure_ways.h"
#include "runtime/tune_cache.h"
#include "topology/graph.h"

namespace gimbal {

struct TuneOptions {
  std::span<const Collective> collectives;  // what to measure
  MeasureBudget budget = {};
  std::function<void(const std::string&)> progress = {};  // a line at a time, on rank 0; null: none
};

// The collectives that have more than one way on one machine.
std::span<const Collective> tunable_collectives();

// Collective, for ranks of one node; graph: of this machine, looked at by rank 0 only. For each collective and every fourth
// power of two it measures the ways that the model, corrected so far, puts first, until the cheapest is a measured one; then
// both sides of each crossover in the middle between two sizes. Returns the same on all ranks.
Result<TunedRun> tune(Communicator& communicator, const TopologyGraph& graph, const TuneOptions& options);

// The result of a new run in the place of an older one for as many ranks and CPUs.
void merge_run(Tuning& tuning, TunedRun run);

}  // namespace gimbal
