// Who made this rank wait, and for how long: the straggler report, taken from waits that happen anyway.
//
// Thread safety: add and clear by the one thread that runs blocking calls; latest and total_ns from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/deadline.h"
#include "base/ticks.h"
#include "base/types.h"

namespace gimbal {

// Operations completed and their bytes. Written by one thread, read by any.
class OperationCount {
 public:
  void add(size_t bytes) {
    operations_.store(operations() + 1, std::memory_order_relaxed);
    bytes_.store(this->bytes() + bytes, std::memory_order_relaxed);
  }
  void clear() {
    operations_.store(0, std::memory_order_relaxed);
    bytes_.store(0, std::memory_order_relaxed);
  }
  [[nodiscard]] uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> operations_{0};
  std::atomic<uint64_t> bytes_{0};
};

// The times of one wait, and what was seen in it.
struct WaitClock {
  int64_t started_ns = 0;  // 0: no clock read yet
  int64_t next_peer_check_ns = 0;
  bool warned = false;
  bool announced = false;
  Rank departed = -1;  // the rank waited for, which had left when the peers were looked at last
};

// Which rank an operation waited for longest. Who is late is that one: after it has come, the ranks wait for each other's work,
// and whom they see last then is chance.
class LongestWait {
 public:
  // After every look in vain. moved: whether it found something before it had to wait again.
  void look(Rank awaited, bool moved) {
    if (!moved && awaited == awaited_) return;
    end();
    awaited_ = awaited;
  }
  // After the last look.
  void end() {
    const uint64_t now = ticks();
    if (awaited_ >= 0 && now - since_ > longest_) {
      longest_ = now - since_;
      rank_ = awaited_;
    }
    since_ = now;
  }
  [[nodiscard]] Rank rank() const { return rank_; }

 private:
  uint64_t since_ = 0;
  uint64_t longest_ = 0;
  Rank awaited_ = -1;
  Rank rank_ = -1;
};

class WaitStatistics {
 public:
  explicit WaitStatistics(Rank size) : late_(static_cast<size_t>(size)) {}

  // The waiting of one operation, and the rank that was late (-1: nobody in particular).
  void add(Rank last, uint64_t waited_ticks) {
    total_ticks_.fetch_add(waited_ticks, std::memory_order_relaxed);
    if (last < 0 || static_cast<size_t>(last) >= late_.size()) return;
    Late& late = late_[static_cast<size_t>(last)];
    late.times.fetch_add(1, std::memory_order_relaxed);
    late.ticks.fetch_add(waited_ticks, std::memory_order_relaxed);
    late.all_times.fetch_add(1, std::memory_order_relaxed);
    late.all_ticks.fetch_add(waited_ticks, std::memory_order_relaxed);
    if (++events_ < kWindowEvents) return;
    // Old waits fade: after a window they count half, after two a quarter.
    events_ /= 2;
    for (Late& one : late_) {
      one.times.store(one.times.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
      one.ticks.store(one.ticks.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
    }
  }

  void clear() {
    for (Late& late : late_) {
      late.times.store(0, std::memory_order_relaxed);
      late.ticks.store(0, std::memory_order_relaxed);
      late.all_times.store(0, std::memory_order_relaxed);
      late.all_ticks.store(0, std::memory_order_relaxed);
    }
    total_ticks_.store(0, std::memory_order_relaxed);
    events_ = 0;
  }

  // Waits that are remembered at full weight.
  static constexpr uint64_t kWindowEvents = 256;

  struct Latest {
    Rank rank = -1;
    uint64_t mean_ns = 0;
    uint64_t waits = 0;  // for that rank
    uint64_t all_waits = 0;
  };
  // The rank that ended more than half of the recent waits, if there were a few; -1 when nobody stands out.
  [[nodiscard]] Latest latest() const {
    uint64_t events = 0;
    size_t most = 0;
    for (size_t rank = 0; rank < late_.size(); ++rank) {
      events += late_[rank].times.load(std::memory_order_relaxed);
      if (late_[rank].times.load(std::memory_order_relaxed) > late_[most].times.load(std::memory_order_relaxed)) most = rank;
    }
    constexpr uint64_t kFewestEvents = 8;
    if (late_.empty()) return {};
    const uint64_t times = late_[most].times.load(std::memory_order_relaxed);
    if (events < kFewestEvents || times * 2 <= events) return {};
    const double mean_ticks =
        static_cast<double>(late_[most].ticks.load(std::memory_order_relaxed)) / static_cast<double>(times);
    return {static_cast<Rank>(most), static_cast<uint64_t>(mean_ticks * scale_.ns_per_tick()), times, events};
  }
  // Since the beginning: how often this rank was the one, and how long those waits were.
  struct OfPeer {
    uint64_t times = 0;
    double seconds = 0;
  };
  [[nodiscard]] OfPeer of_peer(Rank peer) const {
    const Late& late = late_[static_cast<size_t>(peer)];
    const auto all_ticks = static_cast<double>(late.all_ticks.load(std::memory_order_relaxed));
    return {late.all_times.load(std::memory_order_relaxed), all_ticks * scale_.ns_per_tick() / 1e9};
  }
  [[nodiscard]] double to_ns(double ticks) const { return ticks * scale_.ns_per_tick(); }
  [[nodiscard]] uint64_t total_ns() const {
    return static_cast<uint64_t>(static_cast<double>(total_ticks_.load(std::memory_order_relaxed)) * scale_.ns_per_tick());
  }

 private:
  struct Late {
    std::atomic<uint64_t> times{0};
    std::atomic<uint64_t> ticks{0};
    std::atomic<uint64_t> all_times{0};  // these do not fade
    std::atomic<uint64_t> all_ticks{0};
  };
  TickScale scale_;
  std::vector<Late> late_;
  uint64_t events_ = 0;  // in late_, about: halving rounds each rank's down
  std::atomic<uint64_t> total_ticks_{0};
};

}  // namespace gimbal
