// The collective steps by which the ranks of a communicator find out who shares memory with whom, and share it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "collectives/node_shape.h"
#include "runtime/settings.h"
#include "transport/bootstrap.h"
#include "transport/shared_segment.h"

namespace gimbal {

// A number that is equal on the ranks of one node, and differs between nodes: ranks that can pass descriptors to each other,
// unless the settings keep them apart. This rank's; the numbers of all ranks make the NodeShape.
int32_t node_name(const Bootstrap& mesh, const Settings& settings);

// UNSUPPORTED when the settings force a transport that does not lead everywhere.
Status check_transport(const Bootstrap& mesh, const NodeShape& nodes, const Settings& settings);

// Of this rank's node: made by its lowest rank, mapped by all. NO_MEMORY names the rank that has no room for it.
Result<std::shared_ptr<SharedSegment>> share_segment(Bootstrap& mesh, const NodeShape& nodes, Rank rank, size_t bytes,
                                                     const std::string& purpose, Deadline deadline);

}  // namespace gimbal
