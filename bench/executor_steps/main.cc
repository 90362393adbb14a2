// The executor's cost of a step: an 8-rank ring all-reduce of 64-byte chunks over shared-memory endpoints, all ranks in one
// thread, so that instructions are countable and nothing waits.
//
//   executor_steps [iterations]     prints the steps carried out, and nanoseconds per step
//
// check_instructions runs it under callgrind with two numbers of iterations: the difference is free of what setting up costs.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "collectives/algorithm.h"
#include "runtime/cpu_executor.h"
#include "tests/support/mesh.h"

namespace gimbal {
namespace {

constexpr Rank kRanks = 8;
constexpr size_t kChunkFloats = 16;
constexpr size_t kFloats = kChunkFloats * kRanks;
constexpr size_t kSlotBytes = 64;
constexpr size_t kWindow = 4;

struct RankState {
  Plan plan;
  std::vector<float> input = std::vector<float>(kFloats, 1);
  std::vector<float> output = std::vector<float>(kFloats);
  std::vector<std::byte> scratch;
  CpuExecutor executor;
};

Result<size_t> prepare(std::vector<RankState>& ranks) {
  size_t steps = 0;
  CollectiveSpec spec;
  spec.nranks = kRanks;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    RankState& state = ranks[static_cast<size_t>(rank)];
    const Algorithm& ring = *find_algorithm(Collective::kAllReduce, "ring");
    const Schedule schedule = build_schedule(ring, spec, rank, Fusion::kFused);
    PlanOptions options;
    options.layout.nranks = kRanks;
    options.layout.rank = rank;
    options.layout.count = kFloats;
    options.slice_bytes = kSlotBytes;
    options.window = kWindow;
    ASSIGN_OR_RETURN(state.plan, make_plan(schedule, options));
    state.scratch.resize(state.plan.scratch_bytes);
    steps += schedule.steps.size();
  }
  return steps;
}

Status all_reduce(const test::Mesh& mesh, std::vector<RankState>& ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankState& state = ranks[i];
    Binding binding;
    binding.plan = &state.plan;
    binding.input = reinterpret_cast<const std::byte*>(state.input.data());
    binding.output = reinterpret_cast<std::byte*>(state.output.data());
    binding.scratch = state.scratch;
    binding.endpoints = mesh.endpoints(static_cast<Rank>(i));
    RETURN_IF_ERROR(state.executor.bind(binding));
  }
  for (size_t done = 0; done < ranks.size();) {
    done = 0;
    for (RankState& state : ranks) {
      ASSIGN_OR_RETURN(const Progress progress, state.executor.progress());
      done += progress == Progress::kDone ? 1 : 0;
    }
  }
  return {};
}

Status run(size_t iterations) {
  const test::Mesh mesh({.nranks = kRanks, .slot_bytes = kSlotBytes, .window = kWindow, .channels = 1});
  std::vector<RankState> ranks(kRanks);
  ASSIGN_OR_RETURN(const size_t steps, prepare(ranks));
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < iterations; ++i) RETURN_IF_ERROR(all_reduce(mesh, ranks));
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  for (const RankState& state : ranks) {
    if (state.output.back() != kRanks) return Status(Code::kInternal, "the sum is wrong");
  }
  const size_t total = steps * iterations;
  std::printf("%zu steps, %.1f ns each\n", total, elapsed.count() / static_cast<double>(total));
  return {};
}

}  // namespace
}  // namespace gimbal

int main(int argc, char** argv) {
  const long iterations = argc > 1 ? std::atol(argv[1]) : 10000;
  if (iterations <= 0) {
    std::fprintf(stderr, "iterations is \"%s\"; a number above 0 is needed\n", argv[1]);
    return 2;
  }
  const gimbal::Status status = gimbal::run(static_cast<size_t>(iterations));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
