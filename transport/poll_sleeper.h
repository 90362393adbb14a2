// Sleeps until a doorbell rings or a socket can move: how a rank with peers on other hosts waits for those on its own too.
//
// A futex and a descriptor cannot be awaited in one system call before Linux 6.7. So a thread of this object watches the bell
// while somebody sleeps in poll(), and ends that sleep through an eventfd. It is made by the first sleep, and itself sleeps
// whenever nobody asks it to watch.
//
// Thread safety: one thread sleeps at a time.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "base/parking.h"
#include "base/status.h"
#include "transport/socket_poller.h"

namespace gimbal {

class PollSleeper final : public Sleeper {
 public:
  // Descriptors end a sleep when they are readable. They, the pollers and the bell that is slept on must outlive this object.
  static Result<std::unique_ptr<PollSleeper>> create(const std::vector<int>& descriptors,
                                                     const std::vector<SocketPoller*>& pollers = {});
  ~PollSleeper() override;
  PollSleeper(const PollSleeper&) = delete;
  PollSleeper& operator=(const PollSleeper&) = delete;

  // Of the descriptors, only those whose bit is set in `mask` end sleeps from now on; at first all do. For descriptors that
  // stay readable while nobody serves them.
  void select(uint32_t mask);
  // The next sleep ends at once: there is something to do already.
  void skip_sleep() { skips_ = true; }
  // With the same bell every time.
  void sleep(std::atomic<uint32_t>& bell, uint32_t expected, int64_t timeout_ns) override;

 private:
  PollSleeper(const std::vector<int>& descriptors, const std::vector<SocketPoller*>& pollers, FileDescriptor rung);
  // Whether the watcher watches the bell now.
  bool ask(std::atomic<uint32_t>& bell, uint32_t expected);
  void watch();

  const FileDescriptor rung_;  // eventfd: the watched bell has changed
  const std::vector<int> descriptors_;
  bool skips_ = false;
  const std::vector<SocketPoller*> pollers_;
  std::vector<pollfd> polled_;  // rung_, the descriptors, the pollers

  // What the watcher is to watch; published by asked_. A mixture of two requests makes one needless wake-up.
  std::atomic<std::atomic<uint32_t>*> bell_{nullptr};
  std::atomic<uint32_t> expected_{0};
  std::atomic<uint32_t> asked_{0};     // requests so far; the watcher sleeps on it
  std::atomic<uint32_t> answered_{0};  // the last request whose bell has changed
  std::atomic<bool> stop_{false};
  std::atomic<bool> stopped_{false};
  std::thread watcher_;
};

}  // namespace gimbal
