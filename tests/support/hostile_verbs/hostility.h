// What an opened device does to its user, read from the environment as the device is opened.
//
//   HOSTILE_VERBS_SEED=<n>   n > 0: order and time are drawn from it. WRITEs reach memory in any order and in pieces cut at 8
//   bytes,
//                            requests wait before they are sent, completions come late and in batches. All of it is allowed by
//                            the specification, so a right program is right with every seed. 0 or unset: neither.
//   HOSTILE_VERBS_PLAN=...   faults that are to happen, separated by commas:
//     devices=<0..2>  inline=<bytes>  mtu=<256..4096>  link=infiniband|ethernet  memlock=<bytes>
//                                        what the devices are; memlock: how much memory may be registered
//     <call>@<n>=<errno>                 the n-th such call on a device fails: open_device, alloc_pd, reg_mr,
//     create_comp_channel,
//                                        create_cq, create_qp, modify_qp, post_send, post_recv; errno is ENOMEM, EINVAL, EIO
//     link_down@<n>=<device>/<port>      the link is cut, for all processes of the host, with the n-th message that a process
//     sends qp_error@<n>=<device>              the queue pair that sends the device's n-th message breaks
//
// Calls and messages are counted from 1, for each opened device by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "base/status.h"

namespace gimbal::hostile {

struct Hostility {
  // What is at a device's n-th message: the link of the port, or, for port 0, its queue pair.
  struct MessageFault {
    size_t device = 0;
    uint8_t port = 0;
  };

  uint64_t seed = 0;
  size_t devices = 2;
  size_t most_inline = 256;
  size_t mtu_bytes = 4096;
  bool infiniband = false;
  std::optional<size_t> memlock;
  std::map<std::string, std::map<uint64_t, int>, std::less<>> failing_calls;  // call -> its number -> errno
  std::map<uint64_t, MessageFault> cut_links;
  std::map<uint64_t, MessageFault> broken_queue_pairs;

  [[nodiscard]] bool hostile() const { return seed != 0; }

  static Result<Hostility> from_environment();
  // Adds one plan to what is there.
  Status add(std::string_view plan);
};

// The draws of one queue pair or adapter.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t stream) : engine_(seed * 0x9e3779b97f4a7c15 + stream) {}

  uint64_t below(uint64_t bound) { return engine_() % bound; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace gimbal::hostile
