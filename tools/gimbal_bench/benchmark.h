// The whole benchmark as one rank runs it.
#pragma once

#include <string>
#include <vector>

#include "tools/gimbal_bench/options.h"
#include "tools/gimbal_bench/rank.h"

namespace gimbal::bench {

inline constexpr int kFailedStatus = 1;

// Rank 0 prints. The exit status: 0, or kFailedStatus when a result was wrong or a call failed (then its rank says so on
// standard error).
int run_benchmark(const Options& options, const RankIdentity& identity, const std::vector<std::string>& arguments);

}  // namespace gimbal::bench
