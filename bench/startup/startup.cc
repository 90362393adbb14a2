// How long it takes from the call of gimbal_comm_create on every rank to the last rank's first result.
//
//   startup [RANKS...]      (default 2 64; five rounds each; the ranks are processes that exist already)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/support/forked_ranks.h"

namespace {

constexpr int kRounds = 5;

// Seconds from this rank's call of create to its first sum.
double first_result_seconds(int32_t rank, int32_t size, const std::string& rendezvous) {
  const double start = bench::monotonic_seconds();
  gimbal_comm_t comm = bench::create_comm(rank, size, rendezvous);
  const float one = 1.0F;
  float sum = 0.0F;
  bench::require_ok(gimbal_all_reduce(&one, &sum, 1, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr), "gimbal_all_reduce");
  const double seconds = bench::monotonic_seconds() - start;
  if (sum != static_cast<float>(size)) {
    std::fprintf(stderr, "rank %d: the sum of %d ones is %g\n", rank, size, static_cast<double>(sum));
    std::exit(1);
  }
  bench::require_ok(gimbal_barrier(comm, nullptr), "gimbal_barrier");
  bench::require_ok(gimbal_comm_destroy(comm), "gimbal_comm_destroy");
  return seconds;
}

void measure(int32_t size) {
  std::vector<double> slowest;
  for (int round = 0; round < kRounds; ++round) {
    const std::string rendezvous = bench::unique_rendezvous("startup");
    const std::vector<double> seconds =
        bench::run_forked(size, [&](int32_t rank) { return first_result_seconds(rank, size, rendezvous); });
    slowest.push_back(*std::max_element(seconds.begin(), seconds.end()));
  }
  std::sort(slowest.begin(), slowest.end());
  std::printf("%6d  %10.1f  %10.1f  %10.1f\n", size, 1e3 * slowest[kRounds / 2], 1e3 * slowest.front(), 1e3 * slowest.back());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int32_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(static_cast<int32_t>(std::strtol(argv[i], nullptr, 10)));
  if (sizes.empty()) sizes = {2, 64};
  if (std::any_of(sizes.begin(), sizes.end(), [](int32_t size) { return size < 1; })) {
    std::fprintf(stderr, "startup: a number of ranks is below 1\n");
    return 2;
  }
  std::printf("Create to first result, slowest rank, ms\n%6s  %10s  %10s  %10s\n", "ranks", "median", "lowest", "highest");
  for (const int32_t size : sizes) measure(size);
  return 0;
}
