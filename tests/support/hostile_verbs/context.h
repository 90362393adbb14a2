// An opened device: its objects, its rights to misbehave, and the thread that is the adapter.
//
// The adapter works alone, as hardware does: it takes requests from the queues, moves the bytes and posts completions, whether
// or not the user calls anything. `mutex` guards what makes, changes and removes objects; the adapter holds it for one turn at
// a time. Posting and polling do not take it, so that they tell ThreadSanitizer of no order that hardware would not keep.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/hostile_verbs/completion_queue.h"
#include "tests/support/hostile_verbs/fabric.h"
#include "tests/support/hostile_verbs/hostility.h"
#include "tests/support/hostile_verbs/memory_regions.h"

namespace gimbal::hostile {

class Qp;

struct Device : ibv_device {
  size_t index;
};

// One turn of the adapter: what time it was as it began, and when the next one is due if nothing moved in this.
struct Turn {
  int64_t now_ns;
  int64_t wake_at_ns;
  bool moved = false;

  void at(int64_t time_ns) { wake_at_ns = std::min(wake_at_ns, time_ns); }
};

struct Context : ibv_context {
  Context(Device* opened, Hostility what, std::shared_ptr<Fabric> where, uint32_t number);
  ~Context();

  // Held by whoever makes, changes or removes objects. The adapter gives way to it.
  class Lock {
   public:
    explicit Lock(Context& context) : context_(context) {
      context_.waiting_.fetch_add(1, std::memory_order_relaxed);
      context_.mutex_.lock();
      context_.waiting_.fetch_sub(1, std::memory_order_relaxed);
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() { context_.mutex_.unlock(); }

   private:
    Context& context_;
  };

  // Counts a call; true, with errno, when the plan says that this one fails.
  bool fails(std::string_view call);
  // Counts a message that leaves by `port`; true when its queue pair is to break. Cuts the link when that is the plan.
  bool breaks_queue_pair(const PortAddress& port);
  void ring() { fabric->ring(adapter); }
  void raise(ibv_event_type type, Qp* qp);
  [[nodiscard]] PortAddress address(uint8_t port) const;
  [[nodiscard]] uint8_t ports() const;

  const Hostility hostility;
  const std::shared_ptr<Fabric> fabric;
  const uint32_t adapter;
  const size_t device_index;
  EventQueue<ibv_async_event> async_events;
  std::atomic<int> objects = 0;

  // Under Lock.
  MemoryRegions memory;
  std::vector<Qp*> queue_pairs;
  uint64_t queue_pairs_made = 0;

 private:
  void run();
  void take_turn(Turn& turn);
  void report_cut_links();

  std::mutex mutex_;
  std::atomic<int> waiting_ = 0;
  std::mutex calls_mutex_;
  std::map<std::string, uint64_t, std::less<>> calls_;
  uint64_t messages_ = 0;
  Dice dice_;
  std::vector<bool> link_reported_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

inline Context& context_of(ibv_context* context) { return *static_cast<Context*>(context); }

}  // namespace gimbal::hostile
