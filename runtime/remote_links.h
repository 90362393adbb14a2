// The connections to ranks of other nodes: made when the communicator is, for every peer and lane set, and turned into
// endpoints as they are first used. Over verbs where all ranks can use them, else over TCP.
//
// Operations that run beside each other may do so on two threads, so nothing is shared between lane sets.
//
// Thread safety: one thread at a time per lane set.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/types.h"
#include "collectives/node_shape.h"
#include "runtime/settings.h"
#include "transport/bootstrap.h"
#include "transport/endpoint.h"

namespace gimbal {

struct EndpointShape {
  Channel channels = 1;
  size_t slot_bytes = 0;
  size_t window = 0;
};

class RemoteLinks {
 public:
  // Collective. The mesh must outlive the links.
  static Result<std::unique_ptr<RemoteLinks>> connect(Bootstrap& mesh, const NodeShape& nodes, const Settings& settings,
                                                      const EndpointShape& shape, const Log& log, Deadline deadline);

  RemoteLinks() = default;
  RemoteLinks(const RemoteLinks&) = delete;
  RemoteLinks& operator=(const RemoteLinks&) = delete;
  virtual ~RemoteLinks() = default;

  // Once for each peer on another node and each lane set; this must outlive the endpoint.
  virtual Result<std::unique_ptr<Endpoint>> make_endpoint(Rank peer, size_t lane_set) = 0;

  // Until the peers' hosts have taken all that was sent, or the deadline. A close that is answered by a peer's last credits
  // would throw away what is still on its way.
  virtual void drain(Deadline deadline) = 0;

  // Of who drives the operations of a lane set, after a look: whether nothing is known that another look could move.
  [[nodiscard]] virtual bool may_sleep(size_t lane_set) = 0;
  // Readable, once may_sleep() has said so, when a look would find something.
  [[nodiscard]] virtual int descriptor(size_t lane_set) const = 0;

  // "verbs over mlx5_0:1 (InfiniBand, 400 Gb/s)", for people.
  [[nodiscard]] virtual std::string describe() const = 0;
};

}  // namespace gimbal
