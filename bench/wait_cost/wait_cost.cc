// What a rank's waiting costs: the share of a CPU that rank 0 uses (all its threads) while rank 1 comes some seconds late.
//
//   wait_cost [SECONDS]     (default 5)
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/support/forked_ranks.h"

namespace {

double process_cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

gimbal_status_t reduce_blocking(gimbal_comm_t comm, float* value) {
  return gimbal_all_reduce(value, value, 1, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr);
}

gimbal_status_t reduce_started(gimbal_comm_t comm, float* value) {
  gimbal_request_t request = nullptr;
  const gimbal_status_t status = gimbal_all_reduce_start(value, value, 1, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr, &request);
  return status == GIMBAL_OK ? gimbal_wait(&request) : status;
}

// Share of a CPU that this rank used between the barrier and the result.
double share_of_cpu(int32_t rank, const std::string& rendezvous, double late_seconds,
                    gimbal_status_t (*reduce)(gimbal_comm_t, float*)) {
  gimbal_comm_t comm = bench::create_comm(rank, 2, rendezvous);
  float value = 1.0F;
  bench::require_ok(gimbal_barrier(comm, nullptr), "gimbal_barrier");
  if (rank == 1) std::this_thread::sleep_for(std::chrono::duration<double>(late_seconds));
  const double wall = bench::monotonic_seconds();
  const double cpu = process_cpu_seconds();
  bench::require_ok(reduce(comm, &value), "the all-reduce");
  const double share = (process_cpu_seconds() - cpu) / (bench::monotonic_seconds() - wall);
  bench::require_ok(gimbal_comm_destroy(comm), "gimbal_comm_destroy");
  return share;
}

void measure(const char* name, double late_seconds, gimbal_status_t (*reduce)(gimbal_comm_t, float*)) {
  const std::string rendezvous = bench::unique_rendezvous("wait-cost");
  const std::vector<double> shares =
      bench::run_forked(2, [&](int32_t rank) { return share_of_cpu(rank, rendezvous, late_seconds, reduce); });
  std::printf("%-24s  %8.3f %%\n", name, 100 * shares[0]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const double late_seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 5.0;
  if (!(late_seconds > 0)) {
    std::fprintf(stderr, "wait_cost: %s is not a number of seconds above 0\n", argv[1]);
    return 2;
  }
  std::printf("CPU used by a rank whose peer is %g s late\n", late_seconds);
  measure("blocking call", late_seconds, reduce_blocking);
  measure("started, then waited for", late_seconds, reduce_started);
  return 0;
}
