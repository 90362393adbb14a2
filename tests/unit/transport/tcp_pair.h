// Two TCP endpoints within the process, over socket pairs or over TCP on the loopback interface, each with a poller of its own.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "tests/unit/transport/endpoint_exchange.h"
#include "transport/socket_poller.h"
#include "transport/tcp_endpoint.h"

namespace gimbal::testing {

using SocketPair = std::pair<FileDescriptor, FileDescriptor>;

inline SocketPair make_local_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

inline SocketPair make_tcp_pair() {
  const FileDescriptor listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  socklen_t length = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  FileDescriptor a(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(listener.get(), raw, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), raw, &length) != 0 || connect(a.get(), raw, length) != 0) {
    std::abort();
  }
  return {std::move(a), FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

struct TcpPairOptions {
  SocketIo io = SocketIo::kEpoll;
  size_t streams = 1;
  SocketPair (*connect)() = make_tcp_pair;
};

struct TcpPairPollers {
  std::unique_ptr<SocketPoller> a;
  std::unique_ptr<SocketPoller> b;
};

inline TcpEndpointOptions tcp_options(Rank peer, Channel channels, size_t slot_bytes, size_t window) {
  return {.peer = peer,
          .peer_name = "rank " + std::to_string(peer) + " (pid 7 on host b)",
          .channels = channels,
          .slot_bytes = slot_bytes,
          .window = window,
          .cost = {}};
}

inline EndpointPair make_tcp_endpoints(const TcpPairOptions& options, Channel channels, size_t slot_bytes, size_t window) {
  auto pollers = std::make_shared<TcpPairPollers>();
  pollers->a = SocketPoller::create(options.io).value();
  pollers->b = SocketPoller::create(options.io).value();
  std::vector<FileDescriptor> streams_a;
  std::vector<FileDescriptor> streams_b;
  for (size_t i = 0; i < options.streams; ++i) {
    auto [a, b] = options.connect();
    streams_a.push_back(std::move(a));
    streams_b.push_back(std::move(b));
  }
  const auto side = [&](Rank peer, std::vector<FileDescriptor> streams, SocketPoller& poller) -> std::unique_ptr<Endpoint> {
    return TcpEndpoint::create(tcp_options(peer, channels, slot_bytes, window), std::move(streams), poller).value();
  };
  return {.memory = pollers, .a = side(1, std::move(streams_a), *pollers->a), .b = side(0, std::move(streams_b), *pollers->b)};
}

}  // namespace gimbal::testing
