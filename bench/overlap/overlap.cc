// How much of a 16 MiB all-reduce disappears behind computation that never calls the library: communication alone, computation
// alone, and both at once, interleaved.
//
//   bench_overlap [RANKS]      (2)
//
// hidden = (communication + computation - both) / communication: 1 when the all-reduce costs nothing any more, 0 when it waits
// for the computation to end. The computation touches no memory, and takes about twice as long as the communication. All-reduce
// on shared memory is itself work of a CPU, so with as many ranks as CPUs it can be hidden only as far as the ranks leave CPU
// time unused.
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "base/deadline.h"
#include "tools/gimbal_bench/collectives.h"
#include "tools/gimbal_bench/measure.h"
#include "tools/gimbal_bench/rank.h"
#include "tools/support/self_job.h"

namespace gimbal::bench {
namespace {

constexpr size_t kFloats = size_t{4} << 20;  // 16 MiB
constexpr size_t kRounds = 21;

// A chain of dependent operations. The compiler does not know where it begins (from 1 it would find that it stays there).
double compute(double x, size_t steps) {
  for (size_t i = 0; i < steps; ++i) x = x * 0.999999 + 1e-6;
  return x;
}

class Overlap {
 public:
  explicit Overlap(const BenchRank& rank) : rank_(rank) {}

  Status calibrate() {
    constexpr size_t kProbeSteps = 1'000'000;
    std::vector<double> communication_us;
    std::vector<double> probe_us;
    // The first calls are slower (pages are new and the library measures), and any may be disturbed: hence medians.
    for (int i = 0; i < 11; ++i) {
      ASSIGN_OR_RETURN(communication_us.emplace_back(), time(true, 0));
      ASSIGN_OR_RETURN(probe_us.emplace_back(), time(false, kProbeSteps));
    }
    const double ratio = summarize(std::move(communication_us)).p50_us / summarize(std::move(probe_us)).p50_us;
    steps_ = static_cast<size_t>(2 * ratio * kProbeSteps);
    return {};
  }

  // Medians over the rounds of the slowest rank's times: communication, computation, both.
  Result<std::array<double, 3>> measure() {
    std::array<std::vector<double>, 3> times_us;
    for (size_t round = 0; round < kRounds; ++round) {
      for (size_t kind = 0; kind < 3; ++kind) {
        ASSIGN_OR_RETURN(const double time_us, time(kind != 1, kind == 0 ? 0 : steps_));
        times_us[kind].push_back(time_us);
      }
    }
    std::array<double, 3> medians;
    for (size_t kind = 0; kind < 3; ++kind) medians[kind] = summarize(std::move(times_us[kind])).p50_us;
    return medians;
  }

 private:
  Result<double> time(bool communicate, size_t steps) {
    RETURN_IF_ERROR(rank_.barrier());
    const int64_t begin_ns = monotonic_ns();
    gimbal_request_t request = nullptr;
    if (communicate) {
      RETURN_IF_ERROR(to_status(gimbal_all_reduce_start(rank_.first(), rank_.second(), kFloats, GIMBAL_FLOAT32, GIMBAL_SUM,
                                                        rank_.comm(), nullptr, &request),
                                "all_reduce_start"));
    }
    value_ = compute(value_, steps);
    RETURN_IF_ERROR(to_status(gimbal_wait(&request), "wait"));
    const double own_us = static_cast<double>(monotonic_ns() - begin_ns) / 1e3;
    ASSIGN_OR_RETURN(const std::vector<double> all, rank_.gather({own_us}));
    return *std::max_element(all.begin(), all.end());
  }

  const BenchRank& rank_;
  size_t steps_ = 0;
  volatile double value_ = 0.5;
};

Status measure() {
  Options options;
  options.max_bytes = kFloats * sizeof(float);
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchRank> rank, BenchRank::create(options, {}));
  Overlap overlap(*rank);
  RETURN_IF_ERROR(overlap.calibrate());
  ASSIGN_OR_RETURN(const auto medians, overlap.measure());
  if (rank->rank() != 0) return {};
  const auto& [communication, computation, both] = medians;
  std::printf("%d ranks, all-reduce of 16 MiB, median of %zu rounds, slowest rank\n", rank->ranks(), kRounds);
  std::printf("communication alone  %9.0f us\n", communication);
  std::printf("computation alone    %9.0f us\n", computation);
  std::printf("both                 %9.0f us\n", both);
  std::printf("hidden               %9.2f of the communication\n", (communication + computation - both) / communication);
  return {};
}

}  // namespace
}  // namespace gimbal::bench

int main(int argc, char** argv) { return gimbal::run_benchmark_as_ranks("bench_overlap", argc, argv, gimbal::bench::measure); }
