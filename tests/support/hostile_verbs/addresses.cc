#include "tests/support/hostile_verbs/addresses.h"

#include <arpa/inet.h>
#include <endian.h>

#include <cstring>

namespace gimbal::hostile {
namespace {

constexpr size_t kEthernetGids = 4;

ibv_gid link_local(const PortAddress& port) {
  ibv_gid gid = {};
  gid.global.subnet_prefix = htobe64(0xfe80ULL << 48);
  gid.global.interface_id = htobe64(guid_of(port));
  return gid;
}

// ::ffff:10.79.<host>.<device and port>
ibv_gid mapped_ipv4(const PortAddress& port) {
  ibv_gid gid = {};
  const uint8_t bytes[] = {0xff, 0xff, 10, 79, port.host, static_cast<uint8_t>(port.device * 16 + port.port)};
  std::memcpy(gid.raw + 10, bytes, sizeof(bytes));
  return gid;
}

template <typename Matches>
PortAddress find_port(Matches matches) {
  for (uint8_t host = 1; host <= kMostHosts; ++host) {
    for (uint8_t device = 0; device < kMostDevices; ++device) {
      for (uint8_t port = 1; port <= kPortsPerDevice; ++port) {
        const PortAddress address = {host, device, port};
        if (matches(address)) return address;
      }
    }
  }
  return {};
}

}  // namespace

uint64_t guid_of(const PortAddress& port) {
  return 0x0200'00ff'fe00'0000 | uint64_t{port.host} << 16 | uint64_t{port.device} << 8 | port.port;
}

uint16_t lid_of(const PortAddress& port) { return static_cast<uint16_t>(port.host * 16 + port.device * 4 + port.port); }

std::optional<GidEntry> gid_of(const PortAddress& port, size_t index, bool infiniband) {
  if (infiniband) return index == 0 ? std::optional<GidEntry>({link_local(port), IBV_GID_TYPE_IB}) : std::nullopt;
  if (index >= kEthernetGids) return std::nullopt;
  return GidEntry{index < 2 ? link_local(port) : mapped_ipv4(port),
                  index % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2};
}

PortAddress destination_of(const ibv_ah_attr& vector, bool infiniband) {
  if (infiniband && vector.is_global == 0) {
    return find_port([&](const PortAddress& port) { return lid_of(port) == vector.dlid; });
  }
  return find_port([&](const PortAddress& port) {
    const ibv_gid local = link_local(port);
    const ibv_gid mapped = mapped_ipv4(port);
    const bool is_local = std::memcmp(&local, &vector.grh.dgid, sizeof(local)) == 0;
    return is_local || (!infiniband && std::memcmp(&mapped, &vector.grh.dgid, sizeof(mapped)) == 0);
  });
}

}  // namespace gimbal::hostile
