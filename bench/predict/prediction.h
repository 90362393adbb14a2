// What the cost model says of sizes that it was not told about: for each algorithm and number of ranks the measurements at a
// few sizes (those that `gimbal-topo tune` takes: every fourth power of two) correct the model, as tune's do, and the other
// sizes are predicted.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/predict/figures.h"

namespace gimbal::predict {

// The goal: within 25 % of the measured median, at every size from 64 KiB.
inline constexpr double kGoal = 0.25;
inline constexpr size_t kLeastBytes = size_t{64} << 10;

// Measured sizes, those the model learns from among them.
std::span<const size_t> sizes();
bool is_learned(size_t bytes);

struct Comparison {
  std::string algorithm;
  Rank ranks = 2;
  size_t bytes = 0;
  double measured_us = 0;
  double model_us = 0;      // the model alone
  double predicted_us = 0;  // corrected by what was learned
  bool learned = false;     // the model was told this one

  [[nodiscard]] double error() const { return predicted_us / measured_us - 1; }
  [[nodiscard]] bool is_in_goal() const { return error() <= kGoal && error() >= -kGoal; }
};

// In the order of the figures; those below kLeastBytes are learned from only. UNSUPPORTED when the model cannot judge one.
Result<std::vector<Comparison>> compare(const Figures& figures);

// The predicted ones outside the goal.
std::vector<Comparison> missed(std::span<const Comparison> comparisons);

}  // namespace gimbal::predict
