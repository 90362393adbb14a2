// A machine's graph as the numbers that costs are calculated from.
#pragma once

#include "base/cost_inputs.h"
#include "topology/graph.h"

namespace gimbal {

// How a job lies on machines of one kind.
struct Placement {
  Rank ranks = 1;
  Rank nodes = 1;         // machines, ranks / nodes on each (rounded up)
  bool on_gpus = false;   // one rank per GPU, in order of their index, instead of one per CPU
  LinkCost network = {};  // of one rail; a bandwidth of 0: as the machine's NICs say
};

// What links of shared memory cost where nobody has measured it.
LinkCost default_link_cost(LinkClass link_class);

// The first machine of the graph. Ranks are dealt out to the allowed CPUs in the graph's order, one per core first; with more
// ranks than CPUs they begin again. INVALID_ARGUMENT for ranks on GPUs where there are none.
Result<CostInputs> cost_inputs(const TopologyGraph& graph, const Placement& placement);

}  // namespace gimbal
