// An environment without any launcher's variables and without GIMBAL_*, until the end of the scope: whoever started the tests
// may have set some.
#pragma once

#include <list>
#include <optional>
#include <string>

#include "base/environment.h"
#include "tests/support/scoped_environment.h"

namespace gimbal::test {

class NoLauncher {
 public:
  NoLauncher() {
    for (const EnvironmentVariable& variable : environment_table()) set(std::string(variable.name), std::nullopt);
    for (const char* name : {"RANK",
                             "WORLD_SIZE",
                             "LOCAL_WORLD_SIZE",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_RESTART_COUNT",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "PMI_FD",
                             "PMI_PORT",
                             "PMI_ID",
                             "PMI_JOBID",
                             "MPI_LOCALNRANKS",
                             "PMIX_NAMESPACE",
                             "PMIX_RANK",
                             "PMIX_PREFIX",
                             "SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_NTASKS",
                             "SLURM_JOB_ID",
                             "SLURM_STEP_ID",
                             "SLURM_STEP_NUM_NODES",
                             "SLURM_JOB_NUM_NODES",
                             "SLURM_NNODES",
                             "SLURM_STEP_NODELIST",
                             "SLURM_JOB_NODELIST",
                             "SLURM_RESTART_COUNT"}) {
      set(name, std::nullopt);
    }
  }

  void set(const std::string& name, const std::optional<std::string>& value) { variables_.emplace_front(name, value); }

 private:
  std::list<ScopedEnvironment> variables_;  // the latest first, as they must be undone
};

}  // namespace gimbal::test
