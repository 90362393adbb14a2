// Rank and size from the environment that a launcher set up.
//
// Precedence: GIMBAL_RANK and GIMBAL_SIZE; RANK and WORLD_SIZE (torchrun, gimbal-run); OMPI_COMM_WORLD_*; PMI_*; PMIX_RANK,
// with the size that PMIx tells; SLURM_PROCID with SLURM_STEP_NUM_TASKS; SLURM_PROCID with SLURM_NTASKS. Without any of them a
// program is one rank of one.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "base/types.h"

namespace gimbal {

struct LaunchedAs {
  Rank rank = 0;
  Rank size = 1;
  std::string rank_variable;  // empty when no launcher was found
  std::string conflict;       // a sentence when another launcher's variables say something else
};

Result<LaunchedAs> read_launcher();

}  // namespace gimbal
