#include "transport/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace gimbal {
namespace {

FileDescriptor open_socket(const SocketAddress& address) {
  FileDescriptor fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.valid() && address.storage.ss_family != AF_UNIX) {
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return fd;
}

const sockaddr* raw(const SocketAddress& address) { return reinterpret_cast<const sockaddr*>(&address.storage); }

// A TCP client that retries a local port in the ephemeral range can meet itself (simultaneous open).
bool is_connected_to_itself(int fd, const SocketAddress& address) {
  if (address.storage.ss_family == AF_UNIX) return false;
  sockaddr_storage mine = {};
  socklen_t length = sizeof(mine);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &length) != 0) return false;
  if (mine.ss_family == AF_INET) {
    const auto& a = reinterpret_cast<const sockaddr_in&>(mine);
    const auto& b = reinterpret_cast<const sockaddr_in&>(address.storage);
    return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
  }
  const auto& a = reinterpret_cast<const sockaddr_in6&>(mine);
  const auto& b = reinterpret_cast<const sockaddr_in6&>(address.storage);
  return a.sin6_port == b.sin6_port && IN6_ARE_ADDR_EQUAL(&a.sin6_addr, &b.sin6_addr);
}

Transfer outcome(ssize_t moved, bool reading) {
  if (moved > 0) return {.bytes = static_cast<size_t>(moved)};
  if (moved == 0) return {.closed = reading};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
  if (is_lost_connection(errno)) return {.closed = true};
  return {.error_number = errno};
}

}  // namespace

bool is_lost_connection(int error_number) {
  return error_number == EPIPE || error_number == ECONNRESET || is_silence(error_number);
}

bool is_silence(int error_number) {
  switch (error_number) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
      return true;
    default:
      return false;
  }
}

SocketAddress abstract_address(const std::string& name) {
  SocketAddress address;
  auto& unix_address = reinterpret_cast<sockaddr_un&>(address.storage);
  unix_address.sun_family = AF_UNIX;
  const size_t bytes = name.copy(unix_address.sun_path + 1, kMaxAbstractNameBytes);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  address.text = "unix:" + name;
  return address;
}

Result<FileDescriptor> listen_on(const SocketAddress& address) {
  FileDescriptor fd = open_socket(address);
  if (!fd.valid()) return system_error("socket for " + address.text, errno);
  if (address.storage.ss_family != AF_UNIX) {
    // The connections of a job that has just ended linger in TIME_WAIT; they must not keep the next one from its port.
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (bind(fd.get(), raw(address), address.length) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE && address.storage.ss_family != AF_UNIX && port_of(address) == 0) {
      return Status(Code::kSystem, "no port is free to listen on (net.ipv4.ip_local_port_range)");
    }
    if (errno == EADDRINUSE) return Status(Code::kSystem, address.text + " is in use by another program or job");
    if (errno == EADDRNOTAVAIL) {
      return Status(Code::kSystem, address.text + " is not an address of this host, on which rank 0 must serve it");
    }
    return system_error("listening on " + address.text, errno);
  }
  return fd;
}

Result<FileDescriptor> listen_on_port(uint16_t port) {
  constexpr IpAddress kAnyV6 = {};
  IpAddress any_v4 = {};
  any_v4[10] = any_v4[11] = std::byte{0xff};
  Result<FileDescriptor> listener = listen_on(make_tcp_address(kAnyV6, port, 0));
  if (listener.ok()) return listener;
  return listen_on(make_tcp_address(any_v4, port, 0));  // a kernel without IPv6 has IPv4
}

Result<PortListener> listen_on_any_port() {
  ASSIGN_OR_RETURN(FileDescriptor listener, listen_on_port(0));
  SocketAddress bound;
  bound.length = sizeof(bound.storage);
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0) {
    return system_error("asking for the port of a listening socket", errno);
  }
  return PortListener{.fd = std::move(listener), .port = port_of(bound)};
}

void set_link_timeout(int fd, int64_t timeout_ms) {
  const auto set = [fd](int level, int option, int64_t value) {
    const int number = static_cast<int>(std::min<int64_t>(value, std::numeric_limits<int>::max()));
    setsockopt(fd, level, option, &number, sizeof(number));  // fails harmlessly on Unix sockets
  };
  constexpr int64_t kProbes = 4;
  const int64_t interval_s = std::max<int64_t>(1, timeout_ms / 1000 / (kProbes + 1));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, interval_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, timeout_ms);
}

ConnectAttempt start_connect(const SocketAddress& address) {
  FileDescriptor fd = open_socket(address);
  if (!fd.valid()) return {.fd = {}, .error_number = errno};
  if (connect(fd.get(), raw(address), address.length) == 0) {
    const int error_number = finish_connect(fd.get(), address);
    if (error_number != 0) fd.reset();
    return {.fd = std::move(fd), .error_number = error_number};
  }
  if (errno == EINPROGRESS || errno == EINTR) return {.fd = std::move(fd), .error_number = EINPROGRESS};
  return {.fd = {}, .error_number = errno};
}

int finish_connect(int fd, const SocketAddress& address) {
  int error_number = 0;
  socklen_t length = sizeof(error_number);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &length);
  return error_number == 0 && is_connected_to_itself(fd, address) ? ECONNREFUSED : error_number;
}

ConnectAttempt connect_to(const SocketAddress& address, Deadline deadline) {
  ConnectAttempt attempt = start_connect(address);
  if (attempt.error_number != EINPROGRESS) return attempt;
  if (wait_for(attempt.fd.get(), POLLOUT, deadline) == WaitOutcome::kDeadline) return {.fd = {}, .error_number = -1};
  attempt.error_number = finish_connect(attempt.fd.get(), address);
  if (attempt.error_number != 0) attempt.fd.reset();
  return attempt;
}

ConnectAttempt accept_from(int listener) {
  for (;;) {
    FileDescriptor fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      const int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // fails harmlessly on Unix sockets
      return {.fd = std::move(fd)};
    }
    if (errno != EINTR && errno != ECONNABORTED) return {.fd = {}, .error_number = errno};
  }
}

Transfer read_some(int fd, std::span<std::byte> buffer) {
  ssize_t moved = 0;
  do moved = recv(fd, buffer.data(), buffer.size(), 0);
  while (moved < 0 && errno == EINTR);
  return outcome(moved, true);
}

Transfer write_some(int fd, std::span<const std::byte> bytes) {
  ssize_t moved = 0;
  do moved = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  while (moved < 0 && errno == EINTR);
  return outcome(moved, false);
}

WaitOutcome wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry = {.fd = fd, .events = events, .revents = 0};
    if (poll(&entry, 1, deadline.remaining_ms()) > 0) return WaitOutcome::kReady;
    if (deadline.passed()) return WaitOutcome::kDeadline;
  }
}

Status read_all(int fd, std::span<std::byte> buffer, const std::string& peer, Deadline deadline) {
  while (!buffer.empty()) {
    const Transfer transfer = read_some(fd, buffer);
    if (transfer.closed) return {Code::kRemote, peer + " closed the connection"};
    if (transfer.error_number != 0) return system_error(peer + ": reading", transfer.error_number);
    buffer = buffer.subspan(transfer.bytes);
    if (transfer.bytes == 0 && wait_for(fd, POLLIN, deadline) == WaitOutcome::kDeadline) {
      return {Code::kTimeout, peer + " did not answer before the deadline"};
    }
  }
  return {};
}

Status write_all(int fd, std::span<const std::byte> bytes, const std::string& peer, Deadline deadline) {
  while (!bytes.empty()) {
    const Transfer transfer = write_some(fd, bytes);
    if (transfer.closed) return {Code::kRemote, peer + " closed the connection"};
    if (transfer.error_number != 0) return system_error(peer + ": writing", transfer.error_number);
    bytes = bytes.subspan(transfer.bytes);
    if (transfer.bytes == 0 && wait_for(fd, POLLOUT, deadline) == WaitOutcome::kDeadline) {
      return {Code::kTimeout, peer + " took no more bytes before the deadline"};
    }
  }
  return {};
}

}  // namespace gimbal
