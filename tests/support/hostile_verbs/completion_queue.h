// Completion queues and channels.
//
// A queue is filled by its adapter's thread and polled by the user's. They meet in two atomics only, so that a user who finds
// no completion learns nothing of what the adapter has stored meanwhile: ThreadSanitizer reports who looks at it all the same.
#pragma once

#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace gimbal::hostile {

// What an ibv_get_..._event call takes from: its descriptor is readable while something is in it, and a user may make it not
// block.
template <typename T>
class EventQueue {
 public:
  EventQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  ~EventQueue() { close(fd_); }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }

  void push(const T& event) {
    const std::lock_guard<std::mutex> guard(mutex_);
    events_.push_back(event);
    eventfd_write(fd_, 1);
  }
  // Waits unless the descriptor does not block; false, with errno, when there is none.
  bool take(T& event) {
    eventfd_t one = 0;
    while (eventfd_read(fd_, &one) == 0) {
      const std::lock_guard<std::mutex> guard(mutex_);
      if (events_.empty()) continue;  // forgotten since
      event = events_.front();
      events_.pop_front();
      return true;
    }
    return false;
  }
  template <typename Predicate>
  void forget_if(Predicate is_forgotten) {
    const std::lock_guard<std::mutex> guard(mutex_);
    events_.erase(std::remove_if(events_.begin(), events_.end(), is_forgotten), events_.end());
  }

 private:
  int fd_;
  std::mutex mutex_;
  std::deque<T> events_;
};

class Cq;

struct Channel : ibv_comp_channel {
  EventQueue<Cq*> events;
  std::atomic<int> users = 0;
};

struct Completion {
  ibv_wc wc;
  // Polling this completion gives the queue's requests below `retires` back.
  std::atomic<uint64_t>* retired;
  uint64_t retires;
  bool solicited;
};

class Cq : public ibv_cq {
 public:
  Cq(ibv_context* of_context, int capacity, void* cookie, Channel* events);

  int poll(int most, ibv_wc* completions);
  void arm(bool solicited_only);

  // The adapter's side. False when there was no room: the queue is broken from then on, and takes nothing more.
  bool publish(const Completion& completion);
  // No completion of that queue pair is polled afterwards.
  void forget(uint32_t qp_number);

  std::atomic<uint32_t> unacknowledged = 0;
  std::atomic<int> users = 0;

 private:
  enum class Armed : uint8_t { kNo, kSolicited, kAny };

  std::vector<Completion> entries_;
  std::mutex pollers_;
  std::atomic<uint64_t> head_ = 0;
  std::atomic<uint64_t> tail_ = 0;
  std::atomic<Armed> armed_ = Armed::kNo;
  std::atomic<bool> broken_ = false;
};

}  // namespace gimbal::hostile
