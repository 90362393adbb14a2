// What one message over a link costs, as plain numbers: transports publish it, topology derives it, the simulator and the tuner
// calculate with it.
#pragma once

namespace gimbal {

struct LinkCost {
  double latency_us = 0;      // first byte of a message
  double bandwidth_gbps = 0;  // GB/s, one direction
  double overhead_us = 0;     // CPU time per message
};

}  // namespace gimbal
