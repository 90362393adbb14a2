// NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE; RCCL's too): <system> of <cpu> of nested <pci> with <gpu> and
// <nic>.
#pragma once

#include <string_view>

#include "topology/graph.h"

namespace gimbal {

// A NUMA id of -1 is an unknown place, near to everything. There is no limit on the number of elements but the reader's own.
Result<TopologyGraph> graph_from_nccl_xml(std::string_view text);

}  // namespace gimbal
