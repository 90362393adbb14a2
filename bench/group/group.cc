// What grouping is worth: 100 all-reduces of 1 KiB in one group against one of 100 KiB, interleaved; inputs rewritten and
// outputs checked each time, as bench/compare does it. The goal is a ratio of at most 3.
//
//   bench_group [RANKS]      (2)
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "bench/compare/method.h"
#include "tools/gimbal_bench/collectives.h"
#include "tools/gimbal_bench/measure.h"
#include "tools/gimbal_bench/rank.h"
#include "tools/support/self_job.h"

namespace gimbal::bench {
namespace {

constexpr size_t kParts = 100;
constexpr size_t kPartFloats = 256;  // 1 KiB
constexpr size_t kRounds = 500;

Status all_reduce(const BenchRank& rank, size_t first, size_t floats) {
  const size_t offset = first * sizeof(float);
  return to_status(gimbal_all_reduce(rank.first() + offset, rank.second() + offset, floats, GIMBAL_FLOAT32, GIMBAL_SUM,
                                     rank.comm(), nullptr),
                   "all_reduce");
}

Status one_group(const BenchRank& rank) {
  RETURN_IF_ERROR(to_status(gimbal_group_start(), "group_start"));
  for (size_t part = 0; part < kParts; ++part) RETURN_IF_ERROR(all_reduce(rank, part * kPartFloats, kPartFloats));
  return to_status(gimbal_group_end(), "group_end");
}

// Times one call over fresh values, which `iteration` chooses.
template <typename Function>
Status time_one(const BenchRank& rank, size_t iteration, std::vector<double>& times_us, const Function& function) {
  constexpr size_t kFloats = kParts * kPartFloats;
  method_write(reinterpret_cast<float*>(rank.first()), kFloats, iteration, rank.rank());
  RETURN_IF_ERROR(rank.barrier());
  const int64_t begin_ns = monotonic_ns();
  RETURN_IF_ERROR(function());
  times_us.push_back(static_cast<double>(monotonic_ns() - begin_ns) / 1e3);
  const auto* const sums = reinterpret_cast<const float*>(rank.second());
  for (size_t k = 0; k < kFloats; ++k) {
    if (sums[k] == method_expected(k, iteration, rank.ranks())) continue;
    return {Code::kInternal, "wrong sum at element " + std::to_string(k) + " of iteration " + std::to_string(iteration)};
  }
  return {};
}

Status measure() {
  Options options;
  options.max_bytes = kParts * kPartFloats * sizeof(float);
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchRank> rank, BenchRank::create(options, {}));
  std::vector<double> grouped_us;
  std::vector<double> single_us;
  for (size_t round = 0; round < kRounds; ++round) {
    RETURN_IF_ERROR(time_one(*rank, 2 * round, grouped_us, [&] { return one_group(*rank); }));
    RETURN_IF_ERROR(time_one(*rank, 2 * round + 1, single_us, [&] { return all_reduce(*rank, 0, kParts * kPartFloats); }));
  }
  const double grouped = summarize(std::move(grouped_us)).p50_us;
  const double single = summarize(std::move(single_us)).p50_us;
  ASSIGN_OR_RETURN(const std::vector<double> all, rank->gather({grouped, single}));
  if (rank->rank() != 0) return {};
  double slowest_grouped = 0;
  double slowest_single = 0;
  for (size_t i = 0; i < all.size(); i += 2) {
    slowest_grouped = std::max(slowest_grouped, all[i]);
    slowest_single = std::max(slowest_single, all[i + 1]);
  }
  std::printf("%d ranks, median of %zu rounds, slowest rank\n", rank->ranks(), kRounds);
  std::printf("%zu x 1 KiB in a group  %9.2f us\n", kParts, slowest_grouped);
  std::printf("1 x %zu KiB             %9.2f us\n", kParts, slowest_single);
  std::printf("ratio                   %9.2f (goal: at most 3)\n", slowest_grouped / slowest_single);
  return {};
}

}  // namespace
}  // namespace gimbal::bench

int main(int argc, char** argv) { return gimbal::run_benchmark_as_ranks("bench_group", argc, argv, gimbal::bench::measure); }
