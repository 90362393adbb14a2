// The connections to ranks of other nodes: made when the communicator is, for every peer and lane set, and turned into
// endpoints as they are first used.
//
// Each lane set has a poller of its own, because operations that run beside each other may do so on two threads.
//
// Thread safety: one thread at a time per lane set.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "base/types.h"
#include "collectives/node_shape.h"
#include "runtime/node_memory.h"
#include "runtime/settings.h"
#include "transport/bootstrap.h"
#include "transport/endpoint.h"
#include "transport/socket_poller.h"
#include "transport/tcp_connect.h"

namespace gimbal {

class RemoteLinks {
 public:
  // Collective. The mesh must outlive the links.
  static Result<std::unique_ptr<RemoteLinks>> connect(Bootstrap& mesh, const NodeShape& nodes, const Settings& settings,
                                                      Deadline deadline);

  struct EndpointShape {
    Channel channels = 1;
    size_t slot_bytes = 0;
    size_t window = 0;
  };
  // Once for each peer on another node and each lane set; this must outlive the endpoint.
  Result<std::unique_ptr<Endpoint>> make_endpoint(Rank peer, size_t lane_set, const EndpointShape& shape);

  // Until the peers' hosts have taken all that was sent, or the deadline. A close that is answered by a peer's last credits
  // would throw away what is still on its way.
  void drain(Deadline deadline) const;

  [[nodiscard]] SocketPoller& poller(size_t lane_set) const { return *sets_[lane_set].poller; }

 private:
  struct LaneSet {
    std::unique_ptr<SocketPoller> poller;
    std::vector<std::vector<FileDescriptor>> streams;  // by rank, until its endpoint is made
    std::vector<int> in_use;                           // of the endpoints, which own them
  };

  std::unique_ptr<TcpConnector> connector_;
  std::array<LaneSet, NodeLayout::kLaneSets> sets_;
};

}  // namespace gimbal
