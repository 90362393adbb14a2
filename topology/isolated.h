// Runs work in a child process with limits, for readers that hostile input can crash: the crash becomes a sentence.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace gimbal {

struct IsolationLimits {
  int64_t time_ms = 4'000;
  size_t memory_bytes = size_t{160} << 20;  // beyond what this process has mapped already
};

// What the work returned in the child. A child that dies, takes too long or wants too much memory is an INVALID_ARGUMENT that
// says so. The child's own output goes nowhere; no core is written.
Result<std::string> run_isolated(const std::function<Result<std::string>()>& work, const IsolationLimits& limits);

}  // namespace gimbal
