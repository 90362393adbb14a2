// The registry: every schedule that Gimbal knows, by collective and name.
//
// To add one: write its builder in a file of its own, declare it in algorithms.h, put it into the table in algorithm.cc.
// tests/unit/collectives/every_algorithm_test.cc then verifies it (docs/schedule.md).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "collectives/schedule.h"

namespace gimbal {

struct Algorithm {
  std::string_view name;
  Collective collective;
  // The steps as their author wrote them, neither fused nor linked: for build_schedule(). Only for specs that admits() lets in.
  Schedule (*build)(const CollectiveSpec& spec, Rank rank);
  std::string_view description;
  // Fused, a window must have room for so many runs of chunks and one slot more (schedule.h).
  uint32_t window_runs = 1;
  // The schedule of rank r + k is that of rank r with all ranks turned by k, but for the numbers of the chunks: for every k, or
  // for a hierarchical algorithm and equal nodes of consecutive ranks, for whole nodes. One rank then stands for all.
  bool turns = false;
};

std::span<const Algorithm> algorithms();
// Null when there is none. The _v collectives use the algorithms of the plain ones.
const Algorithm* find_algorithm(Collective collective, std::string_view name);
std::vector<const Algorithm*> algorithms_for(Collective collective);

// Why the algorithm cannot serve this spec; empty when it can.
std::string admits(const Algorithm& algorithm, const CollectiveSpec& spec);

// kNone: works with any window. kFused: forwards while it receives; needs a window of Algorithm::window_runs runs and a slot.
enum class Fusion : uint8_t { kNone, kFused };

// What executors run. The spec must be admitted.
Schedule build_schedule(const Algorithm& algorithm, const CollectiveSpec& spec, Rank rank, Fusion fusion);

// The schedules of all ranks, for those who look at them together.
std::vector<Schedule> build_all(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion);

}  // namespace gimbal
