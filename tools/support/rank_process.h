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

// What all ranks of one job share: where they meet and the secret by which they know each other.
struct JobIdentity {
  std::string rendezvous;   // GIMBAL_RENDEZVOUS
  std::string key;          // GIMBAL_JOB_KEY; empty: as this process has it
  std::string master_host;  // MASTER_ADDR
  uint16_t master_port;     // MASTER_PORT
};

// Random names, and a port that was free a moment ago. The port is not held, because the rank that is to listen on it must be
// able to; Gimbal itself meets by the rendezvous and does not need it.
Result<JobIdentity> make_job_identity();
// Of a job over several hosts, each of which knows no more than this: rank 0 serves the rendezvous "host:port". The port for
// other programs' MASTER_PORT is the next one.
Result<JobIdentity> share_job(const std::string& rendezvous);

struct RankPlace {
  Rank rank = 0;
  Rank local_rank = 0;
  Rank local_ranks = 1;
  Rank ranks = 1;
  size_t host = 0;
};

// torchrun's variables and Gimbal's for one rank of a job.
Environment rank_environment(const JobIdentity& job, const RankPlace& place);

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
