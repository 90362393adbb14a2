// Endpoints in ordinary memory, for tests and for models of the executor: no shared memory, no sockets, a plain queue under a
// lock. They are the simplest reading of the contract in transport/endpoint.h.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "transport/endpoint.h"

namespace gimbal {

struct LoopbackOptions {
  Channel channels = 1;
  size_t slot_bytes = 0;
  size_t window = 0;
};

// The side of rank a (its peer is b), then the side of rank b.
std::pair<std::unique_ptr<Endpoint>, std::unique_ptr<Endpoint>> make_loopback_pair(Rank a, Rank b,
                                                                                   const LoopbackOptions& options);

// mesh[rank][peer]; null where both are the same.
using LoopbackMesh = std::vector<std::vector<std::unique_ptr<Endpoint>>>;
LoopbackMesh make_loopback_mesh(Rank ranks, const LoopbackOptions& options);

}  // namespace gimbal
