// Stream sockets: addresses, listening, connecting, and reading and writing up to a deadline.
//
// Every socket is CLOEXEC and non-blocking; a wait is a poll() with the deadline. No call raises SIGPIPE, and EINTR is never
// seen by callers.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/status.h"

namespace gimbal {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
  std::string text;  // for messages: "10.0.0.1:29511", "[::1]:29511", "unix:<name>"
};

// Abstract Unix names stay inside a network namespace and vanish with their socket.
inline constexpr size_t kMaxAbstractNameBytes = 107;
SocketAddress abstract_address(const std::string& name);

// An IPv6 address, or an IPv4 one in its mapped form (::ffff:10.0.0.1), in network order.
using IpAddress = std::array<std::byte, 16>;
// Nothing for an address of another family.
std::optional<IpAddress> ip_of(const sockaddr* address);
bool is_loopback(const IpAddress& ip);
bool is_link_local(const IpAddress& ip);  // fe80::/10, which needs a scope
// `scope` is the index of the interface for link-local addresses, 0 for others.
SocketAddress make_tcp_address(const IpAddress& ip, uint16_t port, uint32_t scope);
// The other end, without its port: "10.0.0.1", "fe80::1%eth0"; nothing when the socket is no TCP connection.
std::optional<SocketAddress> peer_address(int socket);

// "host:port" or "[v6]:port". Literal addresses and localhost are read without asking a name server.
Result<std::vector<SocketAddress>> resolve_tcp(const std::string& host_and_port);
// Whether its host is neither a literal address nor localhost.
bool is_host_name(const std::string& host_and_port);
uint16_t port_of(const SocketAddress& tcp_address);

// "10.0.0.1:29511 is in use" when it is.
Result<FileDescriptor> listen_on(const SocketAddress& address);
// Every address of this host at one port that the kernel chooses, IPv6 and IPv4 where there are both; nothing else is asked
// for.
struct PortListener {
  FileDescriptor fd;
  uint16_t port = 0;
};
Result<PortListener> listen_on_any_port();
// The same at a given port.
Result<FileDescriptor> listen_on_port(uint16_t port);
// A peer whose host answers nothing for this long, neither to data nor to the kernel's probes, is taken for gone: reads then
// fail with ETIMEDOUT. Probes are answered by the peer's kernel, so a process that is stopped or busy is not meant.
void set_link_timeout(int fd, int64_t timeout_ms);
// errno of a connection attempt that has failed, in `error_number`; -1 stands for the deadline.
struct ConnectAttempt {
  FileDescriptor fd;
  int error_number = 0;
};
ConnectAttempt connect_to(const SocketAddress& address, Deadline deadline);
// The same without waiting: EINPROGRESS comes with the socket, on which finish_connect() says more once POLLOUT has come.
ConnectAttempt start_connect(const SocketAddress& address);
// errno of a connection attempt that has ended; 0 when it is connected.
int finish_connect(int fd, const SocketAddress& address);
// The next waiting connection; invalid with errno in error_number when there is none or it failed.
ConnectAttempt accept_from(int listener);

// errno of a connection that is gone for good: the peer, its host or the way there.
bool is_lost_connection(int error_number);
// Of those: it was not the peer that ended it.
bool is_silence(int error_number);

// What one non-blocking read or write did.
struct Transfer {
  size_t bytes = 0;
  bool closed = false;   // end of stream, or is_lost_connection()
  int error_number = 0;  // any other error
};
Transfer read_some(int fd, std::span<std::byte> buffer);
Transfer write_some(int fd, std::span<const std::byte> bytes);

enum class WaitOutcome : uint8_t { kReady, kDeadline };
WaitOutcome wait_for(int fd, short events, Deadline deadline);

// All of the span, or an error that begins with `peer`: REMOTE when the stream ends, TIMEOUT at the deadline.
Status read_all(int fd, std::span<std::byte> buffer, const std::string& peer, Deadline deadline);
Status write_all(int fd, std::span<const std::byte> bytes, const std::string& peer, Deadline deadline);

}  // namespace gimbal
