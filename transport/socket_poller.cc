#include "transport/socket_poller.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "transport/epoll_poller.h"
#include "transport/uring_poller.h"

namespace gimbal {
namespace {

struct Moved {
  size_t bytes = 0;
  int error_number = 0;  // EAGAIN: not now
};

template <typename Call>
Moved move(Call call, Pieces& pieces) {
  msghdr message = {};
  message.msg_iov = pieces.at.data();
  message.msg_iovlen = pieces.count;
  ssize_t bytes = 0;
  do bytes = call(&message);
  while (bytes < 0 && errno == EINTR);
  if (bytes >= 0) return {.bytes = static_cast<size_t>(bytes)};
  return {.error_number = errno == EWOULDBLOCK ? EAGAIN : errno};
}

}  // namespace

Result<std::unique_ptr<SocketPoller>> SocketPoller::create(SocketIo io) {
  if (io == SocketIo::kEpoll) return EpollPoller::create();
  Result<std::unique_ptr<SocketPoller>> uring = UringPoller::create();
  if (uring.ok() || io == SocketIo::kUring) return uring;
  return EpollPoller::create();
}

SocketPoller::SocketPoller() : process_(getpid()) {}

bool SocketPoller::in_forked_child() const { return getpid() != process_; }

void SocketPoller::close(SocketUser& user, int error_number) {
  remove(user);  // a closed socket would stay ready for ever
  user.closed(error_number);
}

void SocketPoller::send(SocketUser& user) {
  SocketUser::State& state = user.poller_state;
  if (state.blocked || state.closed) return;
  for (Pieces pieces = user.unsent(); pieces.count > 0; pieces = user.unsent()) {
    const size_t wanted = pieces.bytes();
    const auto call = [&](msghdr* message) { return sendmsg(user.socket(), message, MSG_NOSIGNAL | MSG_DONTWAIT); };
    const Moved moved = move(call, pieces);
    if (moved.error_number != 0 && moved.error_number != EAGAIN) {
      // What the peer sent before it went may still be there: the end that receive() comes to is the stream's.
      state.send_error = moved.error_number;
      state.blocked = true;
      return;
    }
    if (moved.bytes > 0) user.sent(moved.bytes);
    if (state.blocked || state.closed) return;  // sent() has sent more
    if (moved.bytes < wanted) {
      state.blocked = true;
      return watch_writable(user);
    }
  }
}

bool SocketPoller::receive(SocketUser& user) {
  Pieces pieces = user.space();
  const size_t wanted = pieces.bytes();
  const Moved moved = move([&](msghdr* message) { return recvmsg(user.socket(), message, MSG_DONTWAIT); }, pieces);
  if (moved.error_number == EAGAIN) return false;
  if (moved.error_number != 0 || moved.bytes == 0) {
    const int send_error = user.poller_state.send_error;
    close(user, moved.error_number != 0 || send_error == EPIPE ? moved.error_number : send_error);
    return false;
  }
  user.received(moved.bytes);
  // The end of a stream makes it readable once more.
  return moved.bytes == wanted && !user.poller_state.closed;
}

}  // namespace gimbal
