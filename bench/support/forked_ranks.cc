#include "bench/support/forked_ranks.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace bench {
namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

}  // namespace

double monotonic_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void require_ok(gimbal_status_t status, const char* what) {
  if (status == GIMBAL_OK) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, gimbal_status_name(status), gimbal_last_error());
  std::exit(1);
}

gimbal_comm_t create_comm(int32_t rank, int32_t size, const std::string& rendezvous) {
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  config.rank = rank;
  config.size = size;
  config.rendezvous = rendezvous.c_str();
  gimbal_comm_t comm = nullptr;
  require_ok(gimbal_comm_create(&config, &comm), "gimbal_comm_create");
  return comm;
}

std::string unique_rendezvous(const std::string& prefix) {
  static int counter = 0;
  return "unix://" + prefix + "-" + std::to_string(getpid()) + "-" + std::to_string(counter++);
}

std::vector<double> run_forked(int32_t size, const std::function<double(int32_t rank)>& rank_main) {
  const size_t count = static_cast<size_t>(size);
  void* shared = mmap(nullptr, count * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int gate[2];
  if (shared == MAP_FAILED || pipe(gate) != 0) fail("shared memory and a pipe for the ranks");
  double* results = static_cast<double*>(shared);
  std::fflush(stdout);
  for (int32_t rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) fail("fork");
    if (pid > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(gate[1]);
    char byte = 0;
    // The end of the pipe is the signal: it reaches all ranks at once.
    if (read(gate[0], &byte, 1) != 0) fail("waiting for the start");
    results[rank] = rank_main(rank);
    _exit(0);
  }
  close(gate[0]);
  close(gate[1]);
  bool failed = false;
  for (int32_t rank = 0; rank < size; ++rank) {
    int status = 0;
    if (wait(&status) < 0) fail("wait");
    failed = failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  if (failed) std::exit(1);
  std::vector<double> copied(results, results + count);
  munmap(shared, count * sizeof(double));
  return copied;
}

}  // namespace bench
