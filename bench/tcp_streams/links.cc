#include "bench/tcp_streams/links.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "transport/tcp_endpoint.h"

namespace bench {
namespace {

using gimbal::FileDescriptor;

// What one system call moves at most. 64 and 128 KiB give the same rate; with 256 KiB the two buffers crowd the second cache.
constexpr size_t kPieceBytes = size_t{128} << 10;

class PlainLink final : public Link {
 public:
  PlainLink(std::vector<FileDescriptor> sockets, Waiting waiting)
      : sockets_(std::move(sockets)), waiting_(waiting), sent_(kPieceBytes), received_(kPieceBytes) {}

  void send(size_t bytes) override { move(bytes, 0, 1); }
  void receive(size_t bytes) override { move(0, bytes, 1); }
  void exchange(size_t bytes) override { move(bytes, bytes, sockets_.size()); }

 private:
  struct Left {
    size_t send = 0;
    size_t receive = 0;
  };

  void move(size_t send, size_t receive, size_t streams) {
    std::vector<Left> left(streams);
    for (size_t i = 0; i < streams; ++i) {
      left[i] = {send / streams + (i == 0 ? send % streams : 0), receive / streams + (i == 0 ? receive % streams : 0)};
    }
    while (std::any_of(left.begin(), left.end(), [](const Left& one) { return one.send + one.receive > 0; })) {
      bool moved = false;
      for (size_t i = 0; i < streams; ++i) moved |= move_some(sockets_[i].get(), left[i]);
      if (!moved) wait(left);
    }
  }

  bool move_some(int socket, Left& left) {
    ssize_t sent = 0;
    ssize_t received = 0;
    if (left.send > 0) sent = ::send(socket, sent_.data(), std::min(left.send, kPieceBytes), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) give_up(std::string("send: ") + std::strerror(errno));
    if (left.receive > 0) received = recv(socket, received_.data(), std::min(left.receive, kPieceBytes), MSG_DONTWAIT);
    if (received < 0 && errno != EAGAIN) give_up(std::string("recv: ") + std::strerror(errno));
    left.send -= static_cast<size_t>(std::max<ssize_t>(sent, 0));
    left.receive -= static_cast<size_t>(std::max<ssize_t>(received, 0));
    return sent > 0 || received > 0;
  }

  void wait(const std::vector<Left>& left) {
    if (waiting_ == Waiting::kSpinning) {
      sched_yield();
      return;
    }
    std::vector<pollfd> polled;
    for (size_t i = 0; i < left.size(); ++i) {
      const int events = (left[i].send > 0 ? POLLOUT : 0) | (left[i].receive > 0 ? POLLIN : 0);
      polled.push_back({sockets_[i].get(), static_cast<short>(events), 0});
    }
    poll(polled.data(), polled.size(), -1);
  }

  const std::vector<FileDescriptor> sockets_;
  const Waiting waiting_;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
};

// The slots' bytes are neither written nor read: what is measured is the transport alone.
class EndpointLink final : public Link {
 public:
  EndpointLink(std::vector<FileDescriptor> sockets, gimbal::SocketIo io, size_t slot_bytes) {
    auto poller = gimbal::SocketPoller::create(io);
    if (!poller.ok()) give_up(poller.status().message());
    poller_ = std::move(poller).value();
    gimbal::TcpEndpointOptions options;
    options.peer_name = "the other side";
    options.slot_bytes = slot_bytes;
    options.window = 8;
    auto endpoint = gimbal::TcpEndpoint::create(options, std::move(sockets), *poller_);
    if (!endpoint.ok()) give_up(endpoint.status().message());
    endpoint_ = std::move(endpoint).value();
  }

  void send(size_t bytes) override { move(bytes, 0); }
  void receive(size_t bytes) override { move(0, bytes); }
  void exchange(size_t bytes) override { move(bytes, bytes); }

 private:
  void move(size_t send, size_t receive) {
    while (send + receive > 0 || endpoint_->has_unsent()) {
      bool moved = false;
      if (send > 0) moved |= send_some(send);
      if (receive > 0) moved |= receive_some(receive);
      if (moved) continue;
      check(endpoint_->progress());
      if (!moved) sched_yield();
    }
  }

  bool send_some(size_t& left) {
    const size_t bytes = std::min(left, endpoint_->slot_bytes());
    const auto slot = endpoint_->acquire(0, bytes);
    check(slot.status());
    if (!slot->has_value()) return false;
    check(endpoint_->commit(0, bytes, 0));
    left -= bytes;
    return true;
  }

  bool receive_some(size_t& left) {
    const auto message = endpoint_->front(0);
    check(message.status());
    if (!message->has_value()) return false;
    left -= (*message)->bytes.size();
    endpoint_->release(0);
    return true;
  }

  static void check(const gimbal::Status& status) {
    if (!status.ok()) give_up(status.message());
  }

  std::unique_ptr<gimbal::SocketPoller> poller_;
  std::unique_ptr<gimbal::TcpEndpoint> endpoint_;
};

}  // namespace

std::unique_ptr<Link> make_plain_link(std::vector<FileDescriptor> sockets, Waiting waiting) {
  return std::make_unique<PlainLink>(std::move(sockets), waiting);
}

std::unique_ptr<Link> make_endpoint_link(std::vector<FileDescriptor> sockets, gimbal::SocketIo io, size_t slot_bytes) {
  return std::make_unique<EndpointLink>(std::move(sockets), io, slot_bytes);
}

void give_up(const std::string& sentence) {
  std::fprintf(stderr, "bench_tcp_streams: %s\n", sentence.c_str());
  std::exit(1);
}

}  // namespace bench
