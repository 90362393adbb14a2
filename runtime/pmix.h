// PMIx, by which Open MPI 5 and Slurm with --mpi=pmix tell ranks about their job. libpmix is looked for at run time: nothing is
// needed to build, and where it is missing an error says so.
//
// Launchers want to see PMIx_Finalize before a process ends, and a second PMIx_Init after it damages libpmix's heap (5.0,
// tried): so the session is the process's, and is finalized at its exit. An MPI library in the same process has its own pair,
// which PMIx counts.
#pragma once

#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "base/types.h"

namespace gimbal {

class PmixSession {
 public:
  static Result<std::shared_ptr<PmixSession>> of_this_process();
  virtual ~PmixSession() = default;
  PmixSession(const PmixSession&) = delete;
  PmixSession& operator=(const PmixSession&) = delete;

  [[nodiscard]] virtual std::string job() const = 0;
  virtual Result<Rank> job_size() = 0;
  virtual Status put(const std::string& key, const std::string& value) = 0;
  // What that rank put under the key, as soon as it has.
  virtual Result<std::string> get(Rank rank, const std::string& key, Deadline deadline) = 0;

 protected:
  PmixSession() = default;
};

}  // namespace gimbal
