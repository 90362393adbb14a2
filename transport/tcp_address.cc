// Names and numbers of TCP addresses (transport/socket.h).
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "base/parse.h"
#include "transport/socket.h"

namespace gimbal {
namespace {

std::string text_of(const addrinfo& info) {
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  getnameinfo(info.ai_addr, info.ai_addrlen, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  const bool v6 = info.ai_family == AF_INET6;
  return (v6 ? "[" : "") + std::string(host) + (v6 ? "]:" : ":") + port;
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
    address.text = text_of(*info);
    addresses.push_back(std::move(address));
  }
  freeaddrinfo(list);
  return 0;
}

}  // namespace

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
