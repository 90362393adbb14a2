#include "transport/epoll_poller.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace gimbal {

Result<std::unique_ptr<SocketPoller>> EpollPoller::create() {
  FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return system_error("epoll_create1", errno);
  return std::unique_ptr<SocketPoller>(new EpollPoller(std::move(epoll)));
}

Status EpollPoller::add(SocketUser& user) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = &user;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, user.socket(), &event) != 0) return system_error("epoll_ctl for a socket", errno);
  return {};
}

void EpollPoller::remove(SocketUser& user) {
  if (!user.poller_state.closed && !in_forked_child()) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, user.socket(), nullptr);
  user.poller_state.closed = true;
}

void EpollPoller::watch_writable(SocketUser& user, bool writable) {
  if (user.poller_state.watched == writable) return;
  user.poller_state.watched = writable;
  epoll_event event = {};
  event.events = writable ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = &user;
  // Of a socket that was added it cannot fail.
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, user.socket(), &event);
}

void EpollPoller::close(SocketUser& user, int error_number) {
  remove(user);  // a closed socket stays ready for ever
  user.closed(error_number);
}

void EpollPoller::send(SocketUser& user) {
  if (user.poller_state.sending || user.poller_state.closed) return;
  Pieces pieces;
  for (size_t count = user.unsent(pieces); count > 0; count = user.unsent(pieces)) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
    const Moved moved = send_pieces(user.socket(), pieces, count);
    if (moved.error_number != 0) return close(user, moved.error_number);
    if (moved.bytes > 0) user.sent(static_cast<size_t>(moved.bytes));
    if (moved.bytes != static_cast<ssize_t>(bytes)) {  // the socket's buffer is full
      user.poller_state.sending = true;
      return watch_writable(user, true);
    }
  }
}

void EpollPoller::receive(SocketUser& user) {
  Pieces pieces;
  const size_t count = user.space(pieces);
  const Moved moved = receive_pieces(user.socket(), pieces, count);
  if (moved.error_number != 0 || moved.bytes == 0) return close(user, moved.error_number);
  if (moved.bytes > 0) user.received(static_cast<size_t>(moved.bytes));
}

Status EpollPoller::look() {
  std::array<epoll_event, 64> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  if (ready < 0) return errno == EINTR ? Status() : system_error("epoll_wait", errno);
  for (size_t i = 0; i < static_cast<size_t>(ready); ++i) {
    SocketUser& user = *static_cast<SocketUser*>(events[i].data.ptr);
    // Received first: what came before the peer's close counts, and its credits may be what a send needs.
    if ((events[i].events & ~EPOLLOUT) != 0) receive(user);
    if ((events[i].events & EPOLLOUT) == 0 || user.poller_state.closed) continue;
    user.poller_state.sending = false;
    send(user);
    if (!user.poller_state.closed) watch_writable(user, user.poller_state.sending);
  }
  return {};
}

}  // namespace gimbal
