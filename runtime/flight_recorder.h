// The recent operations of one rank: what, when, how it ended. Always on.
//
// Thread safety: each Writer is one thread; write_json from any thread, clear while nobody writes. Entries are atomics because
// a dump may look while they change; an entry in change may show a mixture, never rubbish.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/ticks.h"
#include "base/types.h"
#include "runtime/signature.h"

namespace gimbal {

// How far this rank's monotonic clock is behind rank 0's, by half a round trip at most wrong.
struct ClockOffset {
  int64_t offset_ns = 0;
  int64_t uncertainty_ns = 0;
};

class FlightRecorder {
 public:
  // Whose operations they are.
  struct Origin {
    std::string communicator;
    Rank rank = 0;
    Rank size = 1;
    std::string host;
    ClockOffset clock;
    Status status;
  };

  static constexpr size_t kEntries = 256;

  enum class Writer : uint8_t { kCaller, kBackground };

  // Returns what end() needs.
  uint64_t begin(const Signature& signature, Writer writer = Writer::kCaller) {
    Ring& ring = rings_[static_cast<size_t>(writer)];
    const uint64_t number = ring.next.load(std::memory_order_relaxed);
    ring.next.store(number + 1, std::memory_order_relaxed);
    Entry& entry = ring.entries[number % kEntries];
    entry.end.store(0, std::memory_order_relaxed);
    entry.number.store(number + 1, std::memory_order_relaxed);
    entry.sequence.store(signature.sequence, std::memory_order_relaxed);
    entry.count.store(signature.count, std::memory_order_relaxed);
    entry.kind_and_root.store(static_cast<uint64_t>(signature.kind) << 32 | static_cast<uint32_t>(signature.root),
                              std::memory_order_relaxed);
    entry.begin.store(ticks(), std::memory_order_relaxed);
    return number * kWriters + static_cast<uint64_t>(writer);
  }
  // timed: whether the end is worth a look at the clock (9 ns of a 120 ns operation); without, the entry says only how it
  // ended.
  void end(uint64_t record, Code code, bool timed = true) {
    const uint64_t number = record / kWriters;
    Entry& entry = rings_[record % kWriters].entries[number % kEntries];
    // A message may be under way while so many others come and go that its entry is another's.
    if (entry.number.load(std::memory_order_relaxed) != number + 1) return;
    entry.code.store(static_cast<uint32_t>(code), std::memory_order_relaxed);
    entry.end.store(timed ? ticks() : kUntimed, std::memory_order_relaxed);
  }
  void clear() {
    for (Ring& ring : rings_) {
      for (Entry& entry : ring.entries) entry.number.store(0, std::memory_order_relaxed);
      ring.next.store(0, std::memory_order_relaxed);
    }
  }

  // One JSON object: communicator, rank, size, and the operations, oldest first. SYSTEM with the path when it cannot be
  // written.
  Status write_json(const std::string& path, const Origin& origin) const;

 private:
  static constexpr uint64_t kUntimed = 1;

  struct Entry {
    std::atomic<uint64_t> number{0};  // 1 + its running number; 0: never used
    std::atomic<uint64_t> begin{0};
    std::atomic<uint64_t> end{0};  // 0: under way; kUntimed: over
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> kind_and_root{0};
    std::atomic<uint32_t> sequence{0};
    std::atomic<uint32_t> code{0};
  };

  static constexpr size_t kWriters = 2;
  struct Ring {
    std::atomic<uint64_t> next{0};
    std::array<Entry, kEntries> entries;
  };
  // By the time of their beginning.
  [[nodiscard]] std::vector<const Entry*> recent() const;
  void write_entry(std::ostream& out, const Entry& entry, double ns_per_tick) const;

  TickScale scale_;
  std::array<Ring, kWriters> rings_;
};

}  // namespace gimbal
