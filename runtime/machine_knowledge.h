// What a communicator knows of its machine beyond what it asks the kernel at the start: a topology that was given as a file,
// and what tune has measured. Read once at create, shared with the communicators split off.
#pragma once

#include <memory>
#include <optional>

#include "base/log.h"
#include "base/status.h"
#include "runtime/settings.h"
#include "runtime/tune_cache.h"
#include "topology/graph.h"

namespace gimbal {

struct MachineKnowledge {
  std::optional<TopologyGraph> given;  // GIMBAL_TOPO_FILE
  std::optional<Tuning> tuning;
  uint64_t tuning_digest = 0;  // of the file's text; 0: no tuning
};

// A topology file that cannot be read is an error: it was asked for. A tune cache that cannot be used is a warning of rank 0's,
// because without it everything works too; one of another version or machine likewise.
Result<std::shared_ptr<const MachineKnowledge>> read_machine_knowledge(const Settings& settings, const Log& log);

// The cost model of a job on machines like this one: of what tune has measured, else of the given topology, else of what
// discovery finds (some milliseconds). cpus: that the ranks of a machine may use.
Result<Tuner> make_tuner(const MachineKnowledge& knowledge, Rank ranks, Rank nodes, double cpus);

}  // namespace gimbal
