// A schedule as GOAL text, which LogGOPSim reads (through its txt2bin) to simulate it under other network models.
//
// A fused step becomes a recv, a calc and a send. Tags are channels: messages of one pair and tag match in order, as ours do.
// What a rank adds and copies is a calc of the nanoseconds that it takes at the rates given.
#pragma once

#include <cstdint>
#include <string>

#include "base/cost_inputs.h"
#include "collectives/algorithm.h"

namespace gimbal {

struct GoalOptions {
  uint64_t chunk_bytes = 1;  // as elements
  double partial_ratio = 1;  // bytes of a partial per byte of an element
  MemoryCost memory = {};
};

std::string goal_text(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion, const GoalOptions& options);

}  // namespace gimbal
