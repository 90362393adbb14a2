// Measured all-reduces of this machine as a file: one JSON object per line, the first for the machine. A file is checked before
// it is used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/cost_inputs.h"
#include "base/status.h"

namespace gimbal::predict {

// What the cost model must know of the machine.
struct Machine {
  std::string name;  // for people
  double cpus = 1;
  uint64_t cache_bytes = 0;
  LinkClass link = LinkClass::kCache;
};

struct Measured {
  std::string algorithm;  // "direct", or a schedule's name
  Rank ranks = 2;
  size_t bytes = 0;
  double median_us = 0;
};

struct Figures {
  Machine machine;
  std::vector<Measured> measured;
};

std::string format_machine(const Machine& machine);
std::string format_measured(const Measured& measured);

// INVALID_ARGUMENT names the line and what is allowed there.
Result<Figures> parse_figures(std::string_view text);

}  // namespace gimbal::predict
