// RemoteLinks over InfiniBand or RoCE.
#pragma once

#include <memory>

#include "runtime/remote_links.h"

namespace gimbal {

// Collective. The error is the same on all ranks (VerbsNetwork::connect).
Result<std::unique_ptr<RemoteLinks>> connect_verbs_links(Bootstrap& mesh, const NodeShape& nodes, const Settings& settings,
                                                         const EndpointShape& shape, const Log& log, Deadline deadline);

}  // namespace gimbal
