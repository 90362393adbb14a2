// Names and numbers of TCP addresses (transport/socket.h).
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/parse.h"
#include "transport/socket.h"

namespace gimbal {
namespace {

constexpr std::array<std::byte, 12> kMappedPrefix = {std::byte{0}, std::byte{0}, std::byte{0},    std::byte{0},
                                                     std::byte{0}, std::byte{0}, std::byte{0},    std::byte{0},
                                                     std::byte{0}, std::byte{0}, std::byte{0xff}, std::byte{0xff}};

bool is_mapped(const IpAddress& ip) { return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), ip.begin()); }

std::string host_text(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST] = {};
  getnameinfo(address, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return host;
}

// The numeric form, without asking a name server.
std::string text_of(const sockaddr* address, socklen_t length) {
  char port[NI_MAXSERV] = {};
  getnameinfo(address, length, nullptr, 0, port, sizeof(port), NI_NUMERICSERV);
  const std::string host = host_text(address, length);
  return address->sa_family == AF_INET6 ? "[" + host + "]:" + port : host + ":" + port;
}

// getaddrinfo's error number; 0 for success.
int look_up(const std::string& host, const std::string& port, int flags, std::vector<SocketAddress>& addresses) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  if (error != 0) return error;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.length = info->ai_addrlen;
    address.text = text_of(info->ai_addr, info->ai_addrlen);
    addresses.push_back(std::move(address));
  }
  freeaddrinfo(list);
  return 0;
}

}  // namespace

std::optional<IpAddress> ip_of(const sockaddr* address) {
  IpAddress ip = {};
  if (address->sa_family == AF_INET) {
    std::ranges::copy(kMappedPrefix, ip.begin());
    std::memcpy(ip.data() + kMappedPrefix.size(), &reinterpret_cast<const sockaddr_in&>(*address).sin_addr, sizeof(in_addr));
    return ip;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  std::memcpy(ip.data(), &reinterpret_cast<const sockaddr_in6&>(*address).sin6_addr, sizeof(ip));
  return ip;
}

bool is_loopback(const IpAddress& ip) {
  if (is_mapped(ip)) return ip[kMappedPrefix.size()] == std::byte{127};
  return std::ranges::all_of(std::span(ip).first(15), [](std::byte byte) { return byte == std::byte{0}; }) &&
         ip[15] == std::byte{1};
}

bool is_link_local(const IpAddress& ip) { return ip[0] == std::byte{0xfe} && (ip[1] & std::byte{0xc0}) == std::byte{0x80}; }

SocketAddress make_tcp_address(const IpAddress& ip, uint16_t port, uint32_t scope) {
  SocketAddress address;
  if (is_mapped(ip)) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.data() + kMappedPrefix.size(), sizeof(in_addr));
    address.length = sizeof(v4);
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_scope_id = scope;
    std::memcpy(&v6.sin6_addr, ip.data(), ip.size());
    address.length = sizeof(v6);
  }
  address.text = text_of(reinterpret_cast<const sockaddr*>(&address.storage), address.length);
  return address;
}

std::optional<SocketAddress> peer_address(int socket) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  auto* raw = reinterpret_cast<sockaddr*>(&address.storage);
  if (getpeername(socket, raw, &address.length) != 0) return std::nullopt;
  const std::optional<IpAddress> ip = ip_of(raw);
  if (!ip) return std::nullopt;
  const uint32_t scope = raw->sa_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(*raw).sin6_scope_id : 0;
  address = make_tcp_address(*ip, 0, scope);
  address.text = host_text(reinterpret_cast<const sockaddr*>(&address.storage), address.length);
  return address;
}

// It stands at the same place in both families.
uint16_t port_of(const SocketAddress& tcp_address) {
  return ntohs(reinterpret_cast<const sockaddr_in&>(tcp_address.storage).sin_port);
}

bool is_host_name(const std::string& host_and_port) {
  const std::string host = host_and_port.substr(0, host_and_port.rfind(':'));
  std::vector<SocketAddress> literal;
  return host != "localhost" && host.front() != '[' && look_up(host, "1", AI_NUMERICHOST, literal) != 0;
}

Result<std::vector<SocketAddress>> resolve_tcp(const std::string& host_and_port) {
  const auto malformed = [&] {
    return Status(Code::kInvalidArgument,
                  "TCP address \"" + host_and_port + "\" is not host:port or [IPv6 address]:port with a port from 1 to 65535");
  };
  const size_t colon = host_and_port.rfind(':');
  if (colon == std::string::npos) return malformed();
  std::string host = host_and_port.substr(0, colon);
  const std::string port = host_and_port.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return malformed();
  }
  if (host.empty() || !parse_integer(port, 1, 65535).ok()) return malformed();

  std::vector<SocketAddress> addresses;
  if (look_up(host, port, AI_NUMERICHOST, addresses) == 0) return addresses;
  if (host == "localhost") {
    look_up("127.0.0.1", port, AI_NUMERICHOST, addresses);
    look_up("::1", port, AI_NUMERICHOST, addresses);
    return addresses;
  }
  const int error = look_up(host, port, 0, addresses);
  if (error != 0) return Status(Code::kSystem, "host name \"" + host + "\" does not resolve: " + gai_strerror(error));
  return addresses;
}

}  // namespace gimbal
