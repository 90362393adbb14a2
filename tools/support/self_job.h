// For programs that are all ranks of a job by themselves: `gimbal-bench -g 4` starts itself four times, as gimbal-run would.
#pragma once

#include <string>

#include "base/status.h"
#include "base/types.h"

namespace gimbal {

// A launcher (gimbal-run, torchrun, mpirun) has started this process as one rank of a job.
bool is_started_as_rank();

// Runs this program with its arguments as that many ranks; the job's exit status.
Result<int> run_self_as_ranks(const std::string& name, Rank ranks, int argc, char** argv);

// The main() of a benchmark that is its own ranks, as many as its first argument says (2 without one): starts them, and each
// measures. The exit status; an error is told on standard error.
int run_benchmark_as_ranks(const std::string& name, int argc, char** argv, Status (*measure)());

}  // namespace gimbal
