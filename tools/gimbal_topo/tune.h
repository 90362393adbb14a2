// gimbal-topo tune: measures this machine and keeps what it has found for the library (docs/tuning.md).
#pragma once

#include <string>
#include <vector>

namespace gimbal {

struct TuneCommand {
  std::string ranks;        // "2,4,8"; empty: chosen from the allowed CPUs
  std::string collectives;  // "all_reduce,all_gather"; empty: all
  std::string output;       // empty: where the library looks
};

// The exit status. Starts itself as that many ranks, once per number; a launcher's ranks measure their own job. Call it while
// this process has one thread.
int run_tune(const TuneCommand& command, int argc, char** argv);

// Numbers of ranks to measure on so many CPUs: powers of two up to the CPUs and at least up to 8, and the CPUs themselves.
std::vector<int> default_rank_counts(int cpus);

}  // namespace gimbal
