// The endpoints of one rank: through shared memory to the ranks of its node, through a transport between nodes to the others.
//
// Thread safety: one thread at a time per lane set.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "collectives/node_shape.h"
#include "runtime/node_memory.h"
#include "runtime/remote_links.h"
#include "runtime/settings.h"
#include "transport/endpoint.h"

namespace gimbal {

// The endpoints for one purpose: operations that run beside each other do not share them. Each is made when it is first used.
class Links {
 public:
  // Channels that run beside each other let one lane fill while another is reduced.
  static constexpr Channel kChannels = 2;
  // A message over TCP and its header fill what the kernel hands down at once (64 KiB), and no byte more, which would cost as
  // much again. Against plain sockets between two emulated hosts, both ways at once, 8 MiB over one and over two streams: slots
  // of 32 KiB 0.49 and 0.54, 56 KiB 0.80 and 1.6, 62 KiB 0.86 and 1.6, 128 KiB 0.71 and 0.93 (bench/tcp_streams).
  static constexpr size_t kSlotBytesBetweenNodes = size_t{62} << 10;
  // Messages that fit into a lane; equal on all ranks of a communicator of this size.
  [[nodiscard]] static size_t window(Rank size);
  // Bytes of one lane (one direction of one pair) with these settings; equal on all ranks.
  static size_t lane_bytes(const Settings& settings);

  // Of the endpoints to ranks of other nodes.
  static EndpointShape shape(const Settings& settings);

  // lane_set: an index below NodeLayout::kLaneSets. remote: null in a communicator of one node. What is given must outlive the
  // links.
  Links(const Settings& settings, const NodeShape& nodes, NodeMemory& memory, RemoteLinks* remote, size_t lane_set);
  ~Links();

  Result<Endpoint*> endpoint(Rank peer);

  // Whether nothing is known that another look could move. By who drives the operations on these links, after a look.
  [[nodiscard]] bool may_sleep() const;

 private:
  [[nodiscard]] std::unique_ptr<Endpoint> make_local(Rank peer) const;

  const Settings& settings_;
  const NodeShape& nodes_;
  NodeMemory& memory_;
  RemoteLinks* const remote_;
  const size_t lane_set_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  // by rank
};

}  // namespace gimbal
