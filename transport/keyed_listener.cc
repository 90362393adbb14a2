#include "transport/keyed_listener.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

namespace gimbal {
namespace {

// Marks an event as that of a listening socket, with its index; others are numbers of strangers.
constexpr uint64_t kListenerBit = uint64_t{1} << 63;

int watch(int epoll, int operation, int fd, uint32_t events, uint64_t name) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = name;
  return epoll_ctl(epoll, operation, fd, &event);
}

}  // namespace

Result<std::unique_ptr<KeyedListener>> KeyedListener::create(std::vector<FileDescriptor> listeners) {
  FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return system_error("epoll_create1 for listening", errno);
  for (size_t i = 0; i < listeners.size(); ++i) {
    if (watch(epoll.get(), EPOLL_CTL_ADD, listeners[i].get(), EPOLLIN, kListenerBit | i) != 0) {
      return system_error("watching a listening socket", errno);
    }
  }
  return std::unique_ptr<KeyedListener>(new KeyedListener(std::move(listeners), std::move(epoll)));
}

KeyedListener::KeyedListener(std::vector<FileDescriptor> listeners, FileDescriptor epoll)
    : listeners_(std::move(listeners)), epoll_(std::move(epoll)) {}

std::vector<AcceptedConnection> KeyedListener::progress(const JobKey& key, const std::function<bool(const Claim&)>& expects) {
  std::vector<AcceptedConnection> accepted;
  std::array<epoll_event, 64> events;
  // Once over: what comes meanwhile leaves the descriptor readable.
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t name = events[static_cast<size_t>(i)].data.u64;
    if ((name & kListenerBit) != 0) {
      accept_all(listeners_[name & ~kListenerBit]);
      continue;
    }
    const auto entry = strangers_.find(name);
    if (entry == strangers_.end()) continue;
    HelloServer& hello = entry->second;
    const HelloServer::Step step = hello.step(key);
    if (step == HelloServer::Step::kAgain) continue;
    if (step == HelloServer::Step::kProven && !expects(hello.claim())) {
      hello.refuse(key);
    } else if (step == HelloServer::Step::kProven) {
      watch(epoll_.get(), EPOLL_CTL_DEL, hello.fd(), 0, 0);
      const Claim claim = hello.claim();
      if (std::optional<FileDescriptor> socket = hello.accept(key)) accepted.push_back({claim, *std::move(socket)});
    }
    strangers_.erase(entry);
  }
  return accepted;
}

void KeyedListener::accept_all(const FileDescriptor& listener) {
  for (;;) {
    ConnectAttempt attempt = accept_from(listener.get());
    if (attempt.fd.valid()) {
      if (strangers_.size() == kMaxStrangers) strangers_.erase(strangers_.begin());
      watch(epoll_.get(), EPOLL_CTL_ADD, attempt.fd.get(), EPOLLIN, accepted_);
      strangers_.emplace(accepted_++, HelloServer(std::move(attempt.fd)));
      continue;
    }
    if (attempt.error_number != EMFILE && attempt.error_number != ENFILE) return;
    if (strangers_.empty()) {
      // The waiting connection would wake the owner again and again.
      paused_ = true;
      return watch_listeners(0);
    }
    strangers_.erase(strangers_.begin());
  }
}

void KeyedListener::resume() {
  if (!paused_) return;
  paused_ = false;
  watch_listeners(EPOLLIN);
}

void KeyedListener::watch_listeners(uint32_t events) {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    watch(epoll_.get(), EPOLL_CTL_MOD, listeners_[i].get(), events, kListenerBit | i);
  }
}

}  // namespace gimbal
