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

TcpStream::TcpStream(FileDescriptor socket, StreamOwner& owner)
    : SocketUser(socket.get()), socket_(std::move(socket)), owner_(owner), route_(route_of(socket_.get())) {
  tune_data_socket(socket_.get());
}

size_t TcpStream::space(Pieces& pieces) {
  if (!receives_) {
    pieces[0] = {buffer_.data() + buffered_, buffer_.size() - buffered_};
    return 1;
  }
  pieces[0] = {destination_, missing_};
  // After a large chunk only the next header, so that the next chunk's bytes need no copy; after a small one, small ones.
  pieces[1] = {buffer_.data(), incoming_.bytes >= kBufferBytes ? kChunkHeaderBytes : buffer_.size()};
  return 2;
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
  buffered_ += bytes;
  take_chunks();
}

void TcpStream::take_chunks() {
  std::span<const std::byte> left(buffer_.data(), buffered_);
  while (left.size() >= kChunkHeaderBytes) {
    incoming_ = read_chunk_header(left.first<kChunkHeaderBytes>());
    left = left.subspan(kChunkHeaderBytes);
    destination_ = owner_.begin_chunk(incoming_);
    if (destination_ == nullptr) {
      broken_ = true;
      buffered_ = 0;
      return;
    }
    const size_t part = std::min<size_t>(incoming_.bytes, left.size());
    std::memcpy(destination_, left.data(), part);
    destination_ += part;
    left = left.subspan(part);
    missing_ = incoming_.bytes - part;
    if (missing_ > 0) {
      receives_ = true;
      break;
    }
    owner_.end_chunk(incoming_);
  }
  std::memmove(buffer_.data(), left.data(), left.size());
  buffered_ = left.size();
}

void TcpStream::take(const OutgoingChunk& chunk) {
  GIMBAL_DCHECK(idle());
  outgoing_ = chunk;
  sent_ = 0;
  sends_ = true;
}

size_t TcpStream::unsent(Pieces& pieces) {
  if (!sends_) return 0;
  size_t count = 0;
  if (sent_ < kChunkHeaderBytes) {
    pieces[count++] = {reinterpret_cast<std::byte*>(&outgoing_.header) + sent_, kChunkHeaderBytes - sent_};
  }
  const size_t payload_sent = sent_ < kChunkHeaderBytes ? 0 : sent_ - kChunkHeaderBytes;
  if (payload_sent < outgoing_.header.bytes) {
    pieces[count++] = {const_cast<std::byte*>(outgoing_.payload) + payload_sent, outgoing_.header.bytes - payload_sent};
  }
  return count;
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
