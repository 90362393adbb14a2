#include "transport/verbs/port.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

namespace gimbal {
namespace {

// Of a card: a port has one GID per address, and what a peer sends is bounded.
constexpr size_t kMaxGids = 16;
constexpr size_t kMaxNameBytes = IBV_SYSFS_NAME_MAX;

// Best first.
enum class Family : uint8_t { kIpv4, kGlobalIpv6, kLinkLocal };

Family family_of(const VerbsGid& gid) {
  in6_addr address = {};
  std::memcpy(&address, gid.address.data(), sizeof(address));
  if (IN6_IS_ADDR_V4MAPPED(&address)) return Family::kIpv4;
  return IN6_IS_ADDR_LINKLOCAL(&address) ? Family::kLinkLocal : Family::kGlobalIpv6;
}

// Gbit/s of the encodings of ibv_port_attr.
double lane_gbits(uint8_t speed) {
  switch (speed) {
    case 1:
      return 2.5;
    case 2:
      return 5;
    case 4:
    case 8:
      return 10;
    case 16:
      return 14;
    case 32:
      return 25;
    case 64:
      return 50;
    case 128:
      return 100;
    default:
      return 0;
  }
}
int lanes_of(uint8_t width) {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

class OpenDevice {
 public:
  OpenDevice(const VerbsLibrary& library, ibv_device* device) : library_(library), context_(library.open_device(device)) {}
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  ~OpenDevice() {
    if (context_ != nullptr) library_.close_device(context_);
  }
  [[nodiscard]] ibv_context* get() const { return context_; }

 private:
  const VerbsLibrary& library_;
  ibv_context* const context_;
};

// Why admitted ports are of no use stands in why_not_.
class PortFinder {
 public:
  PortFinder(const VerbsLibrary& library, const VerbsSettings& settings) : library_(library), settings_(settings) {}

  void look_at(ibv_device* device) {
    const std::string name = library_.get_device_name(device);
    const OpenDevice open(library_, device);
    if (open.get() == nullptr) {
      note(name, std::string("cannot be opened: ") + std::strerror(errno));
      return;
    }
    ibv_device_attr attributes = {};
    if (const int error = library_.query_device(open.get(), &attributes); error != 0) {
      note(name, std::string("does not tell what it is: ") + std::strerror(error));
      return;
    }
    for (uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
      names_ += (names_.empty() ? "" : ", ") + name + ":" + std::to_string(port);
      if (settings_.ports.admits(name, port)) add(open.get(), name, port);
    }
  }

  Result<std::vector<VerbsPort>> take() {
    if (!ports_.empty()) return std::move(ports_);
    if (!why_not_.empty()) return Status(Code::kDevice, why_not_);
    if (names_.empty()) return Status(Code::kUnsupported, "libibverbs finds no device");
    return Status(Code::kDevice, "GIMBAL_IB_HCA \"" + settings_.port_list + "\" admits none of the ports " + names_);
  }

 private:
  void note(const std::string& name, const std::string& what) {
    why_not_ += (why_not_.empty() ? "RDMA device " : ", ") + name + " " + what;
  }

  void add(ibv_context* context, const std::string& name, uint8_t number) {
    ibv_port_attr attributes = {};
    VerbsPort port = {.device = name, .port = number};
    if (const int error = library_.query_port(context, number, &attributes); error != 0) {
      note(describe(port), std::string("does not tell its state: ") + std::strerror(error));
      return;
    }
    if (attributes.state != IBV_PORT_ACTIVE) {
      note(describe(port), "is not active");
      return;
    }
    port.is_infiniband = attributes.link_layer != IBV_LINK_LAYER_ETHERNET;
    port.lid = attributes.lid;
    port.mtu = attributes.active_mtu;
    port.gbits = lane_gbits(attributes.active_speed) * lanes_of(attributes.active_width);
    add_gids(context, attributes.gid_tbl_len, port);
    if (port.gids.empty()) {
      const std::string index = settings_.gid_index < 0 ? "" : " at index " + std::to_string(settings_.gid_index);
      note(describe(port), std::string("has no ") + (port.is_infiniband ? "" : "RoCE v2 ") + "GID" + index +
                               (settings_.gid_index < 0 ? "" : " (GIMBAL_IB_GID_INDEX)"));
      return;
    }
    ports_.push_back(std::move(port));
  }

  void add_gids(ibv_context* context, int table, VerbsPort& port) {
    const ibv_gid_type wanted = port.is_infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
    for (int index = 0; index < std::min<int>(table, UINT8_MAX + 1) && port.gids.size() < kMaxGids; ++index) {
      if (settings_.gid_index >= 0 && index != settings_.gid_index) continue;
      ibv_gid_entry entry = {};
      if (library_.query_gid_ex(context, port.port, static_cast<uint32_t>(index), &entry, 0, sizeof(entry)) != 0) continue;
      if (entry.gid_type != wanted) continue;
      VerbsGid gid = {.index = static_cast<uint8_t>(index)};
      std::memcpy(gid.address.data(), entry.gid.raw, sizeof(entry.gid.raw));
      if (std::ranges::all_of(gid.address, [](std::byte byte) { return byte == std::byte{0}; })) continue;
      port.gids.push_back(gid);
    }
  }

  const VerbsLibrary& library_;
  const VerbsSettings& settings_;
  std::vector<VerbsPort> ports_;
  std::string names_;
  std::string why_not_;
};

std::optional<VerbsGid> find_gid(const VerbsPort& port, Family family) {
  const auto found = std::ranges::find_if(port.gids, [&](const VerbsGid& gid) { return family_of(gid) == family; });
  return found == port.gids.end() ? std::nullopt : std::optional(*found);
}

std::string list_gids(const VerbsPort& port) {
  std::string text;
  for (const VerbsGid& gid : port.gids) text += (text.empty() ? "" : ", ") + describe(gid);
  return text;
}

ibv_mtu to_mtu(uint32_t bytes) {
  ibv_mtu mtu = IBV_MTU_256;
  while (mtu_bytes(mtu) < bytes) mtu = static_cast<ibv_mtu>(mtu + 1);
  return mtu;
}

}  // namespace

uint32_t mtu_bytes(ibv_mtu mtu) { return uint32_t{128} << mtu; }

std::string describe(const VerbsPort& port) { return port.device + ":" + std::to_string(port.port); }

std::string describe(const VerbsGid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(AF_INET6, gid.address.data(), text.data(), text.size());
  return text.data();
}

void VerbsPort::write(ByteWriter& writer) const {
  writer.text(device).u8(port).u8(is_infiniband ? 1 : 0).u16(lid).u8(static_cast<uint8_t>(mtu));
  writer.u32(static_cast<uint32_t>(gbits)).u8(static_cast<uint8_t>(gids.size()));
  for (const VerbsGid& gid : gids) writer.u8(gid.index).raw(gid.address);
}

VerbsPort VerbsPort::read(ByteReader& reader) {
  VerbsPort port;
  port.device = reader.text(kMaxNameBytes);
  port.port = reader.u8();
  port.is_infiniband = reader.u8() != 0;
  port.lid = reader.u16();
  port.mtu = static_cast<ibv_mtu>(std::clamp<uint8_t>(reader.u8(), IBV_MTU_256, IBV_MTU_4096));
  port.gbits = reader.u32();
  port.gids.resize(reader.count(kMaxGids));
  for (VerbsGid& gid : port.gids) {
    gid.index = reader.u8();
    gid.address = reader.array<16>();
  }
  return port;
}

Result<std::vector<VerbsPort>> find_verbs_ports(const VerbsLibrary& library, const VerbsSettings& settings) {
  int count = 0;
  ibv_device** const list = library.get_device_list(&count);
  if (list == nullptr) {
    return Status(Code::kUnsupported, std::string("libibverbs lists no devices: ") + std::strerror(errno));
  }
  PortFinder finder(library, settings);
  for (int i = 0; i < count; ++i) finder.look_at(list[i]);
  library.free_device_list(list);
  return finder.take();
}

Result<VerbsRoute> find_route(const VerbsPort& local, const VerbsPort& remote, const VerbsSettings& settings) {
  if (local.is_infiniband != remote.is_infiniband) {
    const auto link = [](const VerbsPort& port) { return std::string(port.is_infiniband ? "InfiniBand" : "Ethernet"); };
    return Status(Code::kMismatch, describe(local) + " is on " + link(local) + ", " + describe(remote) + " on " + link(remote));
  }
  VerbsRoute route;
  route.remote_lid = remote.lid;
  route.mtu = settings.mtu != 0 ? to_mtu(settings.mtu) : std::min(local.mtu, remote.mtu);
  if (route.mtu > std::min(local.mtu, remote.mtu)) {
    const auto most = [](const VerbsPort& port) { return describe(port) + " takes " + std::to_string(mtu_bytes(port.mtu)); };
    return Status(Code::kMismatch,
                  "GIMBAL_IB_MTU is " + std::to_string(settings.mtu) + ", but " + most(local) + " and " + most(remote));
  }
  if (local.is_infiniband) {
    constexpr size_t kPrefixBytes = 8;
    route.local = local.gids.front();
    route.remote = remote.gids.front();
    route.is_global =
        !std::equal(route.local.address.begin(), route.local.address.begin() + kPrefixBytes, route.remote.address.begin());
    return route;
  }
  for (const Family family : {Family::kIpv4, Family::kGlobalIpv6, Family::kLinkLocal}) {
    const std::optional<VerbsGid> mine = find_gid(local, family);
    const std::optional<VerbsGid> theirs = find_gid(remote, family);
    if (!mine || !theirs) continue;
    route.local = *mine;
    route.remote = *theirs;
    return route;
  }
  return Status(Code::kMismatch, describe(local) + " with GID " + list_gids(local) + " and " + describe(remote) + " with GID " +
                                     list_gids(remote) + " have no address family in common");
}

}  // namespace gimbal
