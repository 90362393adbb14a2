#include "transport/socket_poller.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "transport/epoll_poller.h"
#include "transport/uring_poller.h"

namespace gimbal {
namespace {

template <typename Call>
Moved move(Call call, Pieces& pieces, size_t count, int flags) {
  msghdr message = {};
  message.msg_iov = pieces.data();
  message.msg_iovlen = count;
  Moved moved;
  do moved.bytes = call(&message, flags);
  while (moved.bytes < 0 && errno == EINTR);
  if (moved.bytes < 0 && errno != EAGAIN && errno != EWOULDBLOCK) moved.error_number = errno;
  return moved;
}

}  // namespace

SocketPoller::SocketPoller() : process_(getpid()) {}

bool SocketPoller::in_forked_child() const { return getpid() != process_; }

Moved send_pieces(int socket, Pieces& pieces, size_t count) {
  const auto call = [socket](msghdr* message, int flags) { return sendmsg(socket, message, flags); };
  return move(call, pieces, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

Moved receive_pieces(int socket, Pieces& pieces, size_t count) {
  const auto call = [socket](msghdr* message, int flags) { return recvmsg(socket, message, flags); };
  return move(call, pieces, count, MSG_DONTWAIT);
}

Result<std::unique_ptr<SocketPoller>> SocketPoller::create(SocketIo io) {
  if (io == SocketIo::kEpoll) return EpollPoller::create();
  Result<std::unique_ptr<SocketPoller>> uring = UringPoller::create();
  if (uring.ok() || io == SocketIo::kUring) return uring;
  return EpollPoller::create();
}

}  // namespace gimbal
