// A TCP port of 127.0.0.1 that nobody listens on now.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "base/file_descriptor.h"

namespace gimbal::testing {

struct BoundPort {
  FileDescriptor socket;
  uint16_t port = 0;
};

inline BoundPort bind_any_port() {
  BoundPort bound{.socket = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  bind(bound.socket.get(), reinterpret_cast<const sockaddr*>(&address), length);
  getsockname(bound.socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
  bound.port = ntohs(address.sin_port);
  return bound;
}

inline uint16_t free_port() { return bind_any_port().port; }

}  // namespace gimbal::testing
