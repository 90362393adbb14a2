// Where the ranks of a job meet, by what their launcher says, and the store that they meet at.
//
// One way for each launcher: GIMBAL_RENDEZVOUS as it stands; torchrun's MASTER_ADDR with ports of Gimbal's own, because the
// agent's store holds MASTER_PORT; MASTER_ADDR and MASTER_PORT of others; Hydra's PMI-1; PMIx; the first host of Slurm's node
// list; and an abstract socket named after the job where the launcher says that all ranks are on one host.
#pragma once

#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "runtime/launcher.h"
#include "runtime/settings.h"
#include "transport/store.h"

namespace gimbal {

// "pmi:" and "pmix:" stand for the launcher's own exchange, other addresses are open_store()'s.
struct Rendezvous {
  std::string address;
  std::string launch;  // the launcher's name for this start of the job; empty: none
};

// `launched` says which launcher's variables count. An error names what to set.
Result<Rendezvous> read_rendezvous(const LaunchedAs& launched);

// The store that settings.rendezvous names. It is opened with the job's secret and the launch, so that two starts of a job
// without a secret do not meet by accident. Over PMI and PMIx rank 0 makes a secret where there is none, and the launcher
// passes it on: it is settings.job_key of all ranks then.
Result<std::unique_ptr<Store>> open_rendezvous(Settings& settings, Deadline deadline);

}  // namespace gimbal
