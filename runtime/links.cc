#include "runtime/links.h"

#include "transport/shm_endpoint.h"

namespace gimbal {

size_t Links::window(Rank size) {
  // The lanes of all pairs are address space only until they are used; still, 64 ranks should not reserve many GiB.
  constexpr Rank kManyRanks = 16;
  return size > kManyRanks ? 4 : 8;
}

size_t Links::lane_bytes(const Settings& settings) {
  return ShmEndpoint::lane_bytes(kChannels, settings.slot_bytes, window(settings.size));
}

EndpointShape Links::shape(const Settings& settings) {
  return {.channels = kChannels, .slot_bytes = settings.slot_bytes, .window = window(settings.size)};
}

Links::Links(const Settings& settings, const NodeShape& nodes, NodeMemory& memory, RemoteLinks* remote, size_t lane_set)
    : settings_(settings),
      nodes_(nodes),
      memory_(memory),
      remote_(remote),
      lane_set_(lane_set),
      endpoints_(static_cast<size_t>(settings.size)) {}

Links::~Links() = default;

Result<Endpoint*> Links::endpoint(Rank peer) {
  std::unique_ptr<Endpoint>& endpoint = endpoints_[static_cast<size_t>(peer)];
  if (endpoint == nullptr) {
    if (nodes_.node_of(peer) == nodes_.node_of(settings_.rank)) {
      endpoint = make_local(peer);
    } else {
      ASSIGN_OR_RETURN(endpoint, remote_->make_endpoint(peer, lane_set_));
    }
  }
  return endpoint.get();
}

bool Links::may_sleep() const { return remote_ == nullptr || remote_->may_sleep(lane_set_); }

std::unique_ptr<Endpoint> Links::make_local(Rank peer) const {
  const Rank mine = nodes_.local_rank(settings_.rank);
  const Rank theirs = nodes_.local_rank(peer);
  ShmEndpointOptions options;
  options.peer = peer;
  options.channels = kChannels;
  options.slot_bytes = settings_.slot_bytes;
  options.window = window(settings_.size);
  return std::make_unique<ShmEndpoint>(options, memory_.lane(lane_set_, mine, theirs), memory_.lane(lane_set_, theirs, mine),
                                       memory_.lot(), memory_.doorbells()[static_cast<size_t>(theirs)]);
}

}  // namespace gimbal
