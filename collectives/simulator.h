// How long a schedule takes on links of known cost: a max-plus simulation (every step ends at the latest of what it waits for,
// plus its own time). No event queue: times do not depend on the order in which ranks are looked at.
//
// Model (LogGP's terms): a message costs its sender `overhead`, then occupies the link for bytes / bandwidth, arrives `latency`
// later and costs its receiver `overhead`. A link is directed, from rank to rank; channels share its bandwidth evenly. A fused
// step begins to forward when the first slice is there. Not modelled: the time of adding and copying, bounded windows (the
// verifier's subject), links that several pairs share.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/link_cost.h"
#include "base/status.h"
#include "collectives/algorithm.h"

namespace gimbal {

struct SimulationInput {
  std::function<LinkCost(Rank from, Rank to)> link;
  std::function<size_t(uint32_t chunk)> chunk_bytes;  // as elements
  double partial_ratio = 1;                           // bytes of a partial per byte of an element
  size_t slice_bytes = SIZE_MAX;                      // what a fused step waits for before it forwards
};

struct LinkLoad {
  Rank from;
  Rank to;
  uint64_t bytes;
  uint64_t messages;
};

struct Simulation {
  double time_us = 0;           // when the last rank is done
  std::vector<LinkLoad> links;  // by from, then to
};

// Schedules are built when their rank is first looked at and dropped when it is done. INTERNAL when a receive has no message.
Result<Simulation> simulate(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion,
                            const SimulationInput& input);

}  // namespace gimbal
