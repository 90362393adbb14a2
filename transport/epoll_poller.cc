#include "transport/epoll_poller.h"

#include <sys/epoll.h>

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
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, user.socket(), &event) != 0) {
    return system_error("epoll_ctl for a socket", errno);
  }
  return {};
}

void EpollPoller::remove(SocketUser& user) {
  if (user.poller_state.closed) return;
  user.poller_state.closed = true;
  if (!in_forked_child()) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, user.socket(), nullptr);
}

void EpollPoller::watch(SocketUser& user, bool writable) {
  if (user.poller_state.watched == writable) return;
  user.poller_state.watched = writable;
  epoll_event event = {};
  event.events = writable ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = &user;
  // Of a socket that was added it cannot fail.
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, user.socket(), &event);
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
    user.poller_state.blocked = false;
    send(user);
    if (!user.poller_state.blocked && !user.poller_state.closed) watch(user, false);
  }
  return {};
}

}  // namespace gimbal
