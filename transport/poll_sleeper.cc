#include "transport/poll_sleeper.h"

#include <sched.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>

namespace gimbal {
namespace {

// Nothing depends on it: whoever changes what the watcher waits for wakes it.
constexpr int64_t kWatchNs = 3'600'000'000'000;
// Of a sleep whose bell nobody watches, because the process may not have another thread.
constexpr int64_t kUnwatchedNs = 1'000'000;

}  // namespace

Result<std::unique_ptr<PollSleeper>> PollSleeper::create(const std::vector<int>& descriptors,
                                                         const std::vector<SocketPoller*>& pollers) {
  FileDescriptor rung(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!rung.valid()) return system_error("eventfd for sleeping", errno);
  return std::unique_ptr<PollSleeper>(new PollSleeper(descriptors, pollers, std::move(rung)));
}

PollSleeper::PollSleeper(const std::vector<int>& descriptors, const std::vector<SocketPoller*>& pollers, FileDescriptor rung)
    : rung_(std::move(rung)), descriptors_(descriptors), pollers_(pollers) {
  polled_.push_back({rung_.get(), POLLIN, 0});
  for (const int descriptor : descriptors) polled_.push_back({descriptor, POLLIN, 0});
  for (const SocketPoller* poller : pollers) polled_.push_back({poller->fd(), POLLIN, 0});
}

// poll() passes over a negative descriptor.
void PollSleeper::select(uint32_t mask) {
  skips_ = false;
  for (size_t i = 0; i < descriptors_.size(); ++i) polled_[i + 1].fd = (mask >> i & 1) != 0 ? descriptors_[i] : -1;
}

PollSleeper::~PollSleeper() {
  if (!watcher_.joinable()) return;
  stop_.store(true, std::memory_order_seq_cst);
  // Again and again, because it may be on its way into either sleep.
  while (!stopped_.load(std::memory_order_acquire)) {
    wake_sleepers(asked_);
    wake_sleepers(*bell_.load(std::memory_order_relaxed));
    sched_yield();
  }
  watcher_.join();
}

void PollSleeper::sleep(std::atomic<uint32_t>& bell, uint32_t expected, int64_t timeout_ns) {
  if (std::exchange(skips_, false)) return;
  for (SocketPoller* const poller : pollers_) {
    if (!poller->may_sleep()) return;
  }
  if (!ask(bell, expected)) timeout_ns = std::min(timeout_ns, kUnwatchedNs);
  timespec timeout = {};
  timeout.tv_sec = timeout_ns / 1'000'000'000;
  timeout.tv_nsec = timeout_ns % 1'000'000'000;
  // A signal ends it too: the caller looks again.
  if (ppoll(polled_.data(), polled_.size(), &timeout, nullptr) <= 0 || polled_.front().revents == 0) return;
  uint64_t rings = 0;
  // Nothing to read is as good: only the sleep's end matters.
  static_cast<void>(read(rung_.get(), &rings, sizeof(rings)));
}

bool PollSleeper::ask(std::atomic<uint32_t>& bell, uint32_t expected) {
  GIMBAL_DCHECK(asked_.load(std::memory_order_relaxed) == 0 || bell_.load(std::memory_order_relaxed) == &bell);
  const uint32_t asked = asked_.load(std::memory_order_relaxed);
  const bool watching = answered_.load(std::memory_order_acquire) != asked;
  if (watching && expected_.load(std::memory_order_relaxed) == expected) return true;
  bell_.store(&bell, std::memory_order_relaxed);
  expected_.store(expected, std::memory_order_relaxed);
  asked_.store(asked + 1, std::memory_order_release);  // pairs with the acquire in watch(): the request before its number
  if (watcher_.joinable()) {
    // When it still watches for the request before, the bell has changed since and has woken it.
    wake_sleepers(asked_);
    return true;
  }
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {
    answered_.store(asked + 1, std::memory_order_relaxed);
    return false;
  }
  return true;
}

void PollSleeper::watch() {
  uint32_t answered = 0;
  while (!stop_.load(std::memory_order_seq_cst)) {
    const uint32_t asked = asked_.load(std::memory_order_acquire);
    if (asked == answered) {
      sleep_on_bell(asked_, answered, kWatchNs);
      continue;
    }
    std::atomic<uint32_t>& bell = *bell_.load(std::memory_order_relaxed);
    const uint32_t expected = expected_.load(std::memory_order_relaxed);
    if (bell.load(std::memory_order_acquire) == expected) {
      sleep_on_bell(bell, expected, kWatchNs);
      continue;
    }
    answered = asked;
    answered_.store(answered, std::memory_order_release);
    const uint64_t one = 1;
    // Full only when nobody has slept for 2^64 rings.
    static_cast<void>(write(rung_.get(), &one, sizeof(one)));
  }
  stopped_.store(true, std::memory_order_release);
}

}  // namespace gimbal
