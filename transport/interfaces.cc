#include "transport/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fstream>
#include <memory>
#include <optional>
#include <tuple>

namespace gimbal {
namespace {

constexpr unsigned kMappedBits = 96;  // an IPv4 address is the last 32 bits of its mapped form

unsigned prefix_bits_of(const sockaddr* mask) {
  if (mask == nullptr) return 128;
  unsigned bits = 0;
  if (mask->sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(*mask);
    return kMappedBits + static_cast<unsigned>(std::popcount(v4.sin_addr.s_addr));
  }
  for (const uint8_t byte : reinterpret_cast<const sockaddr_in6&>(*mask).sin6_addr.s6_addr) {
    bits += static_cast<unsigned>(std::popcount(byte));
  }
  return bits;
}

int64_t speed_of(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/speed");
  int64_t speed = 0;
  return file >> speed && speed > 0 ? speed : 0;  // -1, or no file, where the driver knows none
}

bool share_prefix(const IpAddress& a, const IpAddress& b, unsigned bits) {
  for (unsigned i = 0; i < bits; i += 8) {
    const unsigned kept = std::min(8u, bits - i);
    const auto mask = static_cast<std::byte>(0xff << (8 - kept));
    if ((a[i / 8] & mask) != (b[i / 8] & mask)) return false;
  }
  return true;
}

struct Names {
  bool exclude = false;
  bool exact = false;
  std::vector<std::string> names;
};

Names read_names(std::string_view setting) {
  Names names;
  names.exclude = setting.starts_with('^');
  if (names.exclude) setting.remove_prefix(1);
  names.exact = setting.starts_with('=');
  if (names.exact) setting.remove_prefix(1);
  while (!setting.empty()) {
    const size_t comma = std::min(setting.find(','), setting.size());
    if (comma > 0) names.names.emplace_back(setting.substr(0, comma));
    setting.remove_prefix(std::min(comma + 1, setting.size()));
  }
  return names;
}

bool admits(const Names& names, const std::string& interface) {
  const bool listed = std::ranges::any_of(
      names.names, [&](const std::string& name) { return names.exact ? interface == name : interface.starts_with(name); });
  return listed != names.exclude;
}

std::string list_names(const std::vector<InterfaceAddress>& interfaces) {
  std::vector<std::string> names;
  for (const InterfaceAddress& one : interfaces) {
    if (std::ranges::find(names, one.interface) == names.end()) names.push_back(one.interface);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none that is up" : text;
}

}  // namespace

Result<std::vector<InterfaceAddress>> list_interfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return system_error("listing network interfaces", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const std::optional<IpAddress> ip = ip_of(entry->ifa_addr);
    if (!ip) continue;
    found.push_back({.interface = entry->ifa_name,
                     .index = if_nametoindex(entry->ifa_name),
                     .ip = *ip,
                     .prefix_bits = prefix_bits_of(entry->ifa_netmask),
                     .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0 || is_loopback(*ip),
                     .speed_mbps = speed_of(entry->ifa_name)});
  }
  return found;
}

Result<std::vector<InterfaceAddress>> admit_interfaces(const std::vector<InterfaceAddress>& available,
                                                       std::string_view setting) {
  if (setting.empty()) return available;
  const Names names = read_names(setting);
  std::vector<InterfaceAddress> admitted;
  for (const InterfaceAddress& one : available) {
    if (admits(names, one.interface)) admitted.push_back(one);
  }
  if (!admitted.empty()) return admitted;
  const std::string what = names.exclude || names.names.size() != 1 ? "no interface is left by \"" + std::string(setting) + "\""
                                                                    : "interface \"" + names.names.front() + "\" not found";
  return Status(Code::kInvalidArgument, what + "; available: " + list_names(available));
}

std::vector<TcpCandidate> offer(const std::vector<InterfaceAddress>& admitted) {
  std::vector<TcpCandidate> candidates;
  for (const InterfaceAddress& one : admitted) {
    if (one.loopback || candidates.size() == kMaxCandidates) continue;
    candidates.push_back({.interface = one.interface, .ip = one.ip});
  }
  return candidates;
}

std::vector<SocketAddress> addresses_to_try(const std::vector<InterfaceAddress>& mine, const std::vector<TcpCandidate>& theirs,
                                            uint16_t port) {
  struct Choice {
    int distance;  // 0: on a network of this host, 1: behind a router, 2: link-local
    int64_t speed_mbps;
    SocketAddress address;
  };
  std::vector<Choice> choices;
  for (const TcpCandidate& one : theirs) {
    if (is_link_local(one.ip)) {
      for (const InterfaceAddress& through : mine) {
        if (!is_link_local(through.ip) || through.ip == one.ip) continue;
        choices.push_back({2, through.speed_mbps, make_tcp_address(one.ip, port, through.index)});
      }
      continue;
    }
    if (std::ranges::any_of(mine, [&](const InterfaceAddress& own) { return own.ip == one.ip; })) continue;
    Choice choice{.distance = 1, .speed_mbps = 0, .address = make_tcp_address(one.ip, port, 0)};
    for (const InterfaceAddress& own : mine) {
      if (own.loopback || !share_prefix(own.ip, one.ip, own.prefix_bits)) continue;
      choice.distance = 0;
      choice.speed_mbps = std::max(choice.speed_mbps, own.speed_mbps);
    }
    choices.push_back(std::move(choice));
  }
  std::ranges::stable_sort(choices, {}, [](const Choice& one) { return std::tuple(one.distance, -one.speed_mbps); });
  std::vector<SocketAddress> addresses;
  addresses.reserve(choices.size());
  for (Choice& choice : choices) addresses.push_back(std::move(choice.address));
  return addresses;
}

std::string interface_of(int socket, const std::vector<InterfaceAddress>& mine) {
  sockaddr_storage local = {};
  socklen_t length = sizeof(local);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&local), &length) != 0) return "";
  const std::optional<IpAddress> ip = ip_of(reinterpret_cast<const sockaddr*>(&local));
  const auto found = std::ranges::find_if(mine, [&](const InterfaceAddress& one) { return ip && one.ip == *ip; });
  return found == mine.end() ? "" : found->interface;
}

}  // namespace gimbal
