// One rank as a process of its own: how it is started and what it is given.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "base/types.h"
#include "tools/support/binding.h"

namespace gimbal {

using Environment = std::vector<std::pair<std::string, std::string>>;

// What all ranks of one job on one machine share: where they meet and the secret by which they know each other.
struct JobIdentity {
  std::string rendezvous;  // GIMBAL_RENDEZVOUS
  std::string key;         // GIMBAL_JOB_KEY
  uint16_t master_port;    // MASTER_PORT, on 127.0.0.1
};

// Random names, and a port that was free a moment ago. The port is not held, because the rank that is to listen on it must be
// able to; Gimbal itself meets by the rendezvous and does not need it.
Result<JobIdentity> make_job_identity();

// torchrun's variables and Gimbal's for one rank of a job.
Environment rank_environment(const JobIdentity& job, Rank rank, Rank ranks);

struct RankStart {
  std::vector<std::string> command;
  Environment environment;  // added to this process's own
  CpuList cpus;             // empty: as this process
  sigset_t signal_mask;     // to be restored
  // Borrowed; -1: as this process.
  int input = -1;
  int output = -1;
  int error = -1;
  int failure = -1;  // close-on-exec pipe: an errno is written to it when the program cannot be run
};

// Forks a process, leader of its own process group, that dies with this thread. Returns its id.
Result<pid_t> start_rank_process(const RankStart& start);

}  // namespace gimbal
