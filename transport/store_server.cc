#include "transport/store_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <vector>

namespace gimbal {
namespace {

void epoll_set(int epoll, int operation, int fd, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll, operation, fd, &event);
}

void wake_up(int eventfd) { eventfd_write(eventfd, 1); }

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::start(std::vector<FileDescriptor> listeners, const JobKey& key) {
  ASSIGN_OR_RETURN(std::unique_ptr<KeyedListener> listener, KeyedListener::create(std::move(listeners)));
  FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return system_error("epoll_create1 for the store", errno);
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return system_error("eventfd for the store", errno);
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(listener), std::move(epoll), std::move(wake), key));
}

StoreServer::StoreServer(std::unique_ptr<KeyedListener> listener, FileDescriptor epoll, FileDescriptor wake, const JobKey& key)
    : key_(key), listener_(std::move(listener)), epoll_(std::move(epoll)), wake_(std::move(wake)) {
  epoll_set(epoll_.get(), EPOLL_CTL_ADD, listener_->fd(), EPOLLIN);
  epoll_set(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), EPOLLIN);
  table_.on_set([fd = wake_.get()] { wake_up(fd); });
  thread_ = std::thread([this] { serve(); });
}

StoreServer::~StoreServer() {
  stopping_.store(true, std::memory_order_release);
  wake_up(wake_.get());
  thread_.join();
}

void StoreServer::serve() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.fd == listener_->fd()) {
        accept_all();
      } else if (event.data.fd == wake_.get()) {
        eventfd_t ignored = 0;
        eventfd_read(wake_.get(), &ignored);
        // What was set before the end still reaches those who wait for it.
        const bool last = stopping_.load(std::memory_order_acquire);
        answer_waiters();
        if (last) return;
      } else {
        step(event.data.fd, event.events);
      }
    }
  }
}

void StoreServer::accept_all() {
  const auto is_client = [](const Claim& claim) { return claim.purpose == Purpose::kStore; };
  for (AcceptedConnection& accepted : listener_->progress(key_, is_client)) {
    auto connection = std::make_unique<StoreConnection>(std::move(accepted.socket));
    const int fd = connection->fd();
    epoll_set(epoll_.get(), EPOLL_CTL_ADD, fd, connection->wanted_events());
    connection->set_watched(connection->wanted_events());
    connections_.emplace(fd, std::move(connection));
  }
}

void StoreServer::step(int fd, uint32_t events) {
  const auto entry = connections_.find(fd);
  if (entry == connections_.end()) return;
  StoreConnection& connection = *entry->second;
  // Requests that had to wait for the socket to take an answer are in the connection's memory: reading goes on from there.
  const bool keep = ((events & EPOLLOUT) == 0 || connection.write()) && connection.read(table_);
  if (!keep) return drop(fd);
  watch(connection);
}

void StoreServer::answer_waiters() {
  std::vector<int> closed;
  for (const auto& [fd, connection] : connections_) {
    if (connection->answer_waiter(table_)) {
      watch(*connection);
    } else {
      closed.push_back(fd);
    }
  }
  for (const int fd : closed) drop(fd);
}

void StoreServer::watch(StoreConnection& connection) {
  const uint32_t wanted = connection.wanted_events();
  if (wanted == connection.watched_events()) return;
  epoll_set(epoll_.get(), EPOLL_CTL_MOD, connection.fd(), wanted);
  connection.set_watched(wanted);
}

void StoreServer::drop(int fd) {
  connections_.erase(fd);
  listener_->resume();
}

}  // namespace gimbal
