// What GIMBAL_IB_* says about InfiniBand and RoCE. Plain, so that a build without rdma-core's headers reads it too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace gimbal {

// Which ports may be used, in the syntax of NCCL_IB_HCA: "mlx5" or "mlx5_0,mlx5_1" by prefix, "=mlx5_0:1" exactly, "^mlx5_2"
// and
// "^=mlx5_2:2" all others. A name without a port means all ports of the device. Empty: all.
class PortFilter {
 public:
  PortFilter() = default;
  static Result<PortFilter> parse(std::string_view text);
  [[nodiscard]] bool admits(std::string_view device, uint8_t port) const;

 private:
  struct Entry {
    std::string device;
    uint8_t port = 0;  // 0: all
  };
  std::vector<Entry> entries_;
  bool exactly_ = false;
  bool others_ = false;
};

struct VerbsSettings {
  std::string port_list;  // as it was given, for messages
  PortFilter ports;
  int32_t gid_index = -1;  // -1: chosen for each pair of ports
  // 4.096 us * 2^18 is 1.07 s until a packet is sent again, the customary value where a fabric may take a moment to find
  // another way. Seven tries, the first included: an answer after about 8 s. 7 for the count would mean "for ever" to
  // soft-RoCE.
  uint8_t timeout = 18;
  uint8_t retry_count = 6;
  uint8_t service_level = 0;
  uint8_t traffic_class = 0;
  uint32_t mtu = 0;  // bytes; 0: the lower of what the two ports have
  // To each peer over each pair of ports. Two take two ways through a network that chooses by connection.
  uint32_t queue_pairs = 2;
  uint32_t rails = 0;  // ports that a rank uses; 0: its share of the host's
};

inline constexpr uint32_t kMaxVerbsRails = 8;
inline constexpr uint32_t kMaxVerbsQueuePairs = 16;  // to a peer over one pair of ports

// From the environment. INVALID_ARGUMENT names the variable, its value and what is allowed.
Result<VerbsSettings> read_verbs_settings();

}  // namespace gimbal
