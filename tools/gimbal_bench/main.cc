// gimbal-bench: how fast and how right the collectives are (docs/bench.md).
#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/environment.h"
#include "base/parse.h"
#include "tools/gimbal_bench/benchmark.h"
#include "tools/gimbal_bench/sizes.h"
#include "tools/support/self_job.h"

namespace gimbal::bench {
namespace {

constexpr int kUsageStatus = 2;

int run_threads(const Options& options, const std::vector<std::string>& arguments) {
  std::vector<int> statuses(static_cast<size_t>(options.ranks));
  std::vector<std::thread> threads;
  threads.reserve(statuses.size());
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      statuses[static_cast<size_t>(rank)] = run_benchmark(options, {rank, options.ranks, "memory://gimbal-bench"}, arguments);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(statuses.begin(), statuses.end());
}

// Ranks of the job that share this machine's memory.
Rank local_ranks(const Options& options, bool launched) {
  if (!launched) return options.ranks;
  const Result<int64_t> local = environment_integer("LOCAL_WORLD_SIZE", 1, 1, 100'000);
  return local.ok() ? static_cast<Rank>(*local) : 1;
}

int refuse(const std::string& sentence, int status) {
  std::fprintf(stderr, "gimbal-bench: %s\n", sentence.c_str());
  return status;
}

int run(int argc, char** argv) {
  const Result<Options> options = parse_options(argc, argv);
  if (!options.ok()) return refuse(options.status().message() + " (see gimbal-bench --help)", kUsageStatus);
  const bool launched = is_started_as_rank();
  if (const Status status = check_memory(*options, local_ranks(*options, launched)); !status.ok()) {
    return refuse(status.message(), kFailedStatus);
  }
  const std::vector<std::string> arguments(argv, argv + argc);
  if (launched) return run_benchmark(*options, {}, arguments);
  if (options->threads) return run_threads(*options, arguments);
  if (options->ranks == 1) return run_benchmark(*options, {0, 1, "memory://gimbal-bench"}, arguments);
  const Result<int> status = run_self_as_ranks("gimbal-bench", options->ranks, argc, argv);
  if (!status.ok()) return refuse(status.status().message(), kFailedStatus);
  return *status;
}

}  // namespace
}  // namespace gimbal::bench

int main(int argc, char** argv) { return gimbal::bench::run(argc, argv); }
