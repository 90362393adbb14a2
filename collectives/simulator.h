// How long a schedule takes on links of known cost: a step begins when what it waits for is complete, and ends after its own
// time.
//
// Model (LogGP's terms): a message costs its sender `overhead`, then occupies the link for bytes / bandwidth, arrives `latency`
// later and costs its receiver `overhead`. A link is directed, from rank to rank; channels share its bandwidth evenly. A fused
// step begins to forward when the first slice is there. Beside its link a message may pass *parts* that other messages pass too
// (a NIC, a memory bus), and cost the CPUs at its ends copying or adding; parts and CPUs serve whole messages, in the order in
// which their steps begin. Not modelled: bounded windows (the verifier's subject).
//
// Events are looked at in the order of their times, and of rank and channel where these are equal: times depend on nothing
// else.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/link_cost.h"
#include "base/status.h"
#include "collectives/algorithm.h"

namespace gimbal {

inline constexpr int32_t kNoPart = -1;

// What a message from one rank to another needs beside its link. GB/s; 0: nothing.
struct Passage {
  int32_t sender_part = kNoPart;    // where it comes by first
  int32_t receiver_part = kNoPart;  // and then
  double copy_in_gbps = 0;          // its sender copies it first
  double copy_out_gbps = 0;         // its receiver copies it, when it does not add
  double reduce_gbps = 0;           // its receiver adds it
};

struct SimulationInput {
  std::function<LinkCost(Rank from, Rank to)> link;
  std::function<size_t(uint32_t chunk)> chunk_bytes;        // as elements
  double partial_ratio = 1;                                 // bytes of a partial per byte of an element
  size_t slice_bytes = SIZE_MAX;                            // what a fused step waits for before it forwards
  std::function<Passage(Rank from, Rank to)> passage = {};  // null: messages need their links only
  std::vector<double> part_gbps = {};                       // by the number of the part
  double copy_gbps = 0;                                     // of a kCopy step; 0: it takes no time
  double reduce_gbps = 0;                                   // of a kReduce step
  // Where the schedule, links and parts of rank r + period are those of rank r turned by period (Algorithm::turns), and all
  // chunks are equally long, ranks 0..period-1 stand for all: exactly so, but for the order of messages from several nodes that
  // come to a part at the same time. 0: all ranks.
  Rank period = 0;
};

struct LinkLoad {
  Rank from;
  Rank to;
  uint64_t bytes;
  uint64_t messages;
};

struct Simulation {
  double time_us = 0;           // when the last rank is done
  std::vector<LinkLoad> links;  // by from, then to; with a period those that lead to the ranks that stand for all
  uint64_t steps = 0;           // that were looked at
};

// INTERNAL when a receive has no message.
Result<Simulation> simulate(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion,
                            const SimulationInput& input);

}  // namespace gimbal
