// Runs a program as the ranks of one job that this machine holds, all of them or one host's part, and ends when they have
// ended: gimbal-run, and gimbal-bench -g.
//
// The first rank that fails stops the job: all others get SIGTERM, and SIGKILL after a grace period, each with its whole
// process group. Signals that this process receives are forwarded. Nothing of the job outlives this process, however it dies.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tools/support/binding.h"

namespace gimbal {

struct Job {
  std::string launcher;  // begins this process's own lines on standard error: "gimbal-run"
  std::vector<std::string> command;
  Rank ranks = 1;  // on this host
  // This host's part of a job over several ones; every host's is started by itself, by whatever logs in there.
  std::vector<Rank> ranks_per_host;  // empty: this host is all
  size_t host = 0;                   // which of them this one is
  std::string rendezvous;            // host:port, of the first host
  Binding binding = Binding::kNone;
  bool prefix_output = true;  // "[2] " before every line of rank 2; else the ranks write to this process's streams themselves
  int64_t timeout_ms = 0;     // the job is stopped when it takes longer; 0: never
  int64_t grace_ms = 10'000;  // between SIGTERM and SIGKILL
};

// Exit statuses of the job beside the ranks' own, as timeout(1) and shells have them.
inline constexpr int kTimeoutStatus = 124;
inline constexpr int kCannotRunStatus = 127;

// The exit status of the rank that failed first (128 + signal if it died by one), else 0; or why no rank could be started. Call
// it from a process with one thread.
Result<int> run_job(const Job& job);

}  // namespace gimbal
