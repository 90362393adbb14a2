// The ports of this host's RDMA devices, as cards that ranks show each other, and the way between two of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/bytes.h"
#include "transport/verbs/library.h"
#include "transport/verbs_settings.h"

namespace gimbal {

struct VerbsGid {
  uint8_t index = 0;
  std::array<std::byte, 16> address = {};
};

struct VerbsPort {
  std::string device;  // "mlx5_0"
  uint8_t port = 1;
  bool is_infiniband = false;  // else RoCE
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;  // active
  double gbits = 0;
  std::vector<VerbsGid> gids = {};  // of RoCE: version 2 only

  void write(ByteWriter& writer) const;
  static VerbsPort read(ByteReader& reader);
};

// "mlx5_0:1"
std::string describe(const VerbsPort& port);
// "::ffff:10.9.0.1"
std::string describe(const VerbsGid& gid);

// The active ports that the settings admit, in the order of the library's list. UNSUPPORTED says that there is no device,
// DEVICE why those that there are cannot be used.
Result<std::vector<VerbsPort>> find_verbs_ports(const VerbsLibrary& library, const VerbsSettings& settings);

// How a queue pair of one port reaches one of another.
struct VerbsRoute {
  VerbsGid local;
  VerbsGid remote;
  bool is_global = true;  // by GID; within an InfiniBand subnet the LID is enough
  uint16_t remote_lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
};

// Both sides find the same pair of GIDs: of one family, IPv4 before global IPv6 before link-local. MISMATCH says what keeps
// the ports apart.
Result<VerbsRoute> find_route(const VerbsPort& local, const VerbsPort& remote, const VerbsSettings& settings);

uint32_t mtu_bytes(ibv_mtu mtu);

}  // namespace gimbal
