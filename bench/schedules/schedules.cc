// What it costs to build, verify and simulate schedules, per step: builds happen when a communicator meets a new collective,
// verifying when the deterministic mode asks for an algorithm's order.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "collectives/simulator.h"
#include "collectives/verifier.h"

namespace gimbal {
namespace {

// "per_step" is printed as seconds with a suffix: 12n is 12 ns.
void count_steps(benchmark::State& state, size_t steps) {
  state.counters["steps"] = static_cast<double>(steps);
  state.counters["per_step"] = benchmark::Counter(static_cast<double>(steps),
                                                  benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void build_one_rank(benchmark::State& state, const Algorithm& algorithm, Fusion fusion) {
  const CollectiveSpec spec = {.collective = algorithm.collective, .nranks = static_cast<Rank>(state.range(0))};
  size_t steps = 0;
  for (auto _ : state) {
    const Schedule schedule = build_schedule(algorithm, spec, 1, fusion);
    steps = schedule.steps.size();
    benchmark::DoNotOptimize(schedule.steps.data());
  }
  count_steps(state, steps);
}

void verify_all_ranks(benchmark::State& state, const Algorithm& algorithm) {
  const CollectiveSpec spec = {.collective = algorithm.collective, .nranks = static_cast<Rank>(state.range(0))};
  const std::vector<Schedule> schedules = build_all(algorithm, spec, Fusion::kNone);
  size_t steps = 0;
  for (auto _ : state) {
    const Result<Verification> verification = verify(spec, schedules);
    if (!verification.ok()) return state.SkipWithError(verification.status().message().c_str());
    steps = verification->steps;
  }
  count_steps(state, steps);
}

void simulate_all_ranks(benchmark::State& state, const Algorithm& algorithm) {
  const CollectiveSpec spec = {.collective = algorithm.collective, .nranks = static_cast<Rank>(state.range(0))};
  const SimulationInput input = {
      .link = [](Rank, Rank) { return LinkCost{.latency_us = 1, .bandwidth_gbps = 10, .overhead_us = 0.1}; },
      .chunk_bytes = [](uint32_t) { return size_t{1} << 20; }};
  size_t messages = 0;
  for (auto _ : state) {
    const Result<Simulation> simulation = simulate(algorithm, spec, Fusion::kNone, input);
    if (!simulation.ok()) return state.SkipWithError(simulation.status().message().c_str());
    messages = 0;
    for (const LinkLoad& link : simulation->links) messages += link.messages;
  }
  count_steps(state, 2 * messages);  // a send and a receive each
}

void register_all() {
  for (const Algorithm& algorithm : algorithms()) {
    const std::string name = std::string(collective_name(algorithm.collective)) + "/" + std::string(algorithm.name);
    benchmark::RegisterBenchmark(("build/" + name).c_str(), build_one_rank, algorithm, Fusion::kNone)->Arg(8)->Arg(64);
    benchmark::RegisterBenchmark(("build_fused/" + name).c_str(), build_one_rank, algorithm, Fusion::kFused)->Arg(64);
    if (algorithm.collective != Collective::kAllReduce) continue;
    benchmark::RegisterBenchmark(("verify/" + name).c_str(), verify_all_ranks, algorithm)
        ->Arg(64)
        ->Arg(1024)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("simulate/" + name).c_str(), simulate_all_ranks, algorithm)
        ->Arg(64)
        ->Arg(1024)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace gimbal

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  gimbal::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
