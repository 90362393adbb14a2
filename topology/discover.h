// This machine: hwloc, sysfs and the GPU drivers together, with what this process may use of it.
#pragma once

#include "topology/graph.h"

namespace gimbal {

// PUs outside the affinity mask or the cgroup's cpuset are there and not allowed. When HWLOC_XMLFILE makes hwloc tell of
// another machine, nothing of this one is added and is_this_machine is false.
Result<TopologyGraph> discover_topology();

}  // namespace gimbal
