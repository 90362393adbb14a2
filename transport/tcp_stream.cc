#include "transport/tcp_stream.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace gimbal {
namespace {

std::string text_of(const sockaddr_storage& address, socklen_t length) {
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  const auto* const raw = reinterpret_cast<const sockaddr*>(&address);
  if (getnameinfo(raw, length, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) return "";
  return (address.ss_family == AF_INET6 ? "[" + std::string(host) + "]:" : std::string(host) + ":") + port;
}

bool same_address(const sockaddr_storage& a, const sockaddr* b) {
  if (b == nullptr || a.ss_family != b->sa_family) return false;
  if (a.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr == reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a.ss_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                                                       &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr);
}

std::string interface_of(const sockaddr_storage& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  std::string name;
  for (const ifaddrs* one = list; one != nullptr && name.empty(); one = one->ifa_next) {
    if (same_address(address, one->ifa_addr)) name = one->ifa_name;
  }
  freeifaddrs(list);
  return name;
}

std::string route_of(int socket) {
  sockaddr_storage mine = {};
  sockaddr_storage theirs = {};
  socklen_t my_length = sizeof(mine);
  socklen_t their_length = sizeof(theirs);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&mine), &my_length) != 0 ||
      getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &their_length) != 0) {
    return "a closed socket";
  }
  if (mine.ss_family != AF_INET && mine.ss_family != AF_INET6) return "a local socket";
  const std::string interface = interface_of(mine);
  return text_of(mine, my_length) + " to " + text_of(theirs, their_length) + (interface.empty() ? "" : " over " + interface);
}

}  // namespace

void tune_data_socket(int socket) {
  const auto set = [socket](int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof(value)); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // What a slow stream has taken but not sent is lost for the faster ones: no more than two chunks.
  set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 256 << 10);
  // A host that vanished without a word is noticed in half a minute, whether or not something is on its way to it.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

TcpStream::TcpStream(FileDescriptor socket, StreamOwner& owner, const Landing& landing)
    : SocketUser(socket.get()), socket_(std::move(socket)), owner_(owner), route_(route_of(socket_.get())), landing_(landing) {
  tune_data_socket(socket_.get());
}

Pieces TcpStream::space() {
  Pieces pieces;
  if (receives_) pieces.add(destination_, missing_);
  pieces.add(header_bytes_.data() + header_size_, kChunkHeaderBytes - header_size_);
  pieces.add(landing_.memory, landing_.bytes);
  return pieces;
}

void TcpStream::received(size_t bytes) {
  received_bytes_ += bytes;
  if (broken_) return;
  if (receives_) {
    const size_t part = std::min(bytes, missing_);
    destination_ += part;
    missing_ -= part;
    bytes -= part;
    if (missing_ > 0) return;
    receives_ = false;
    owner_.end_chunk(incoming_);
  }
  const size_t part = std::min(bytes, kChunkHeaderBytes - header_size_);
  header_size_ += part;
  std::span<const std::byte> rest(landing_.memory, bytes - part);
  while (take_header(rest) && take_payload(rest)) continue;
}

bool TcpStream::take_header(std::span<const std::byte>& rest) {
  const size_t part = std::min(rest.size(), kChunkHeaderBytes - header_size_);
  if (part > 0) std::memcpy(header_bytes_.data() + header_size_, rest.data(), part);
  header_size_ += part;
  rest = rest.subspan(part);
  if (header_size_ < kChunkHeaderBytes) return false;
  header_size_ = 0;
  incoming_ = read_chunk_header(header_bytes_);
  destination_ = owner_.begin_chunk(incoming_, landing_);
  broken_ = destination_ == nullptr;
  return !broken_;
}

bool TcpStream::take_payload(std::span<const std::byte>& rest) {
  const size_t part = std::min<size_t>(incoming_.bytes, rest.size());
  // Within one slot bytes move towards its beginning only, so that what is left of `rest` stays as it is.
  if (part > 0 && destination_ != rest.data()) std::memmove(destination_, rest.data(), part);
  rest = rest.subspan(part);
  destination_ += part;
  missing_ = incoming_.bytes - part;
  receives_ = missing_ > 0;
  if (receives_) return false;
  owner_.end_chunk(incoming_);
  return true;
}

void TcpStream::take(const OutgoingChunk& chunk) {
  GIMBAL_DCHECK(idle());
  outgoing_ = chunk;
  sent_ = 0;
  sends_ = true;
}

Pieces TcpStream::unsent() {
  Pieces pieces;
  if (!sends_) return pieces;
  const size_t header_sent = std::min(sent_, kChunkHeaderBytes);
  const size_t payload_sent = sent_ - header_sent;
  pieces.add(reinterpret_cast<const std::byte*>(&outgoing_.header) + header_sent, kChunkHeaderBytes - header_sent);
  pieces.add(outgoing_.payload + payload_sent, outgoing_.header.bytes - payload_sent);
  return pieces;
}

void TcpStream::sent(size_t bytes) {
  sent_ += bytes;
  if (sent_ < kChunkHeaderBytes + outgoing_.header.bytes) return;
  sends_ = false;
  owner_.chunk_sent(outgoing_);
}

void TcpStream::closed(int error_number) {
  closed_ = true;
  owner_.stream_closed(*this, error_number);
}

}  // namespace gimbal
