// What a collective costs when it is carried out in some way, from the way's own steps: no formula knows an algorithm.
//
//   time = the simulated schedule (latencies and overheads along the longest path, wires' bandwidth)
//        + the busiest CPU's work: what its steps copy and add
//
// Inside a machine it is the CPUs that move bytes: a send copies into a slot, a receive copies or adds out of it, so that links
// of shared memory have no bandwidth of their own in the simulation, and no rank reads faster than its link to the peer. Ranks
// that share CPUs share their time, and each message waits until its receiver's turn comes. Between machines a rail is no
// faster than all that leaves by it.
//
// The result is an estimate until Corrections (corrections.h) holds what has been measured of the same way.
#pragma once

#include "base/cost_inputs.h"
#include "base/status.h"
#include "base/types.h"
#include "collectives/way.h"

namespace gimbal {

struct Cost {
  double path_us = 0;  // of the simulated schedule: messages one after the other
  double work_us = 0;  // of the busiest CPU: bytes that it copies and adds
  [[nodiscard]] double time_us() const { return path_us + work_us; }
};

class CostModel {
 public:
  CostModel(CostInputs inputs, Rank nranks) : inputs_(std::move(inputs)), nranks_(nranks) {}

  [[nodiscard]] Rank nranks() const { return nranks_; }
  [[nodiscard]] const CostInputs& inputs() const { return inputs_; }

  // For `bytes` per rank, as gimbal_explain counts them. UNSUPPORTED with the reason when the way cannot serve the
  // collective, or when its schedules are too long to be looked at step by step (more than kMostSteps in all).
  [[nodiscard]] Result<Cost> cost(const Way& way, Collective collective, size_t bytes, DType dtype) const;

  static constexpr size_t kMostSteps = size_t{1} << 21;

 private:
  CostInputs inputs_;
  Rank nranks_;
};

// GB/s that nccl-tests' would print for the time: the collective's bytes over the time, times the factor that makes it
// comparable with the links' bandwidth. 0 for a barrier.
double bus_bandwidth_gbps(Collective collective, Rank nranks, size_t bytes, double time_us);

}  // namespace gimbal
