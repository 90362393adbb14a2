// The recent operations of one rank: what, when, how it ended. Always on.
//
// Thread safety: begin and end by the threads that run operations (the caller and the progress thread may both); write_json
// from any thread. Entries are atomics because a dump may look while they change; an entry in change may show a mixture, never
// rubbish.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/ticks.h"
#include "base/types.h"
#include "runtime/signature.h"

namespace gimbal {

class FlightRecorder {
 public:
  static constexpr size_t kEntries = 256;

  // Returns the entry's number for end().
  uint64_t begin(const Signature& signature) {
    const uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    Entry& entry = entries_[number % kEntries];
    entry.end.store(0, std::memory_order_relaxed);
    entry.number.store(number + 1, std::memory_order_relaxed);
    entry.sequence.store(signature.sequence, std::memory_order_relaxed);
    entry.count.store(signature.count, std::memory_order_relaxed);
    entry.kind_and_root.store(static_cast<uint64_t>(signature.kind) << 32 | static_cast<uint32_t>(signature.root),
                              std::memory_order_relaxed);
    entry.begin.store(ticks(), std::memory_order_relaxed);
    return number;
  }
  void end(uint64_t number, Code code) {
    Entry& entry = entries_[number % kEntries];
    entry.code.store(static_cast<uint32_t>(code), std::memory_order_relaxed);
    entry.end.store(ticks(), std::memory_order_relaxed);
  }

  void clear() {
    for (Entry& entry : entries_) entry.number.store(0, std::memory_order_relaxed);
    next_.store(0, std::memory_order_relaxed);
  }

  // One JSON object: communicator, rank, size, and the operations, oldest first. SYSTEM with the path when it cannot be
  // written.
  Status write_json(const std::string& path, const std::string& communicator, Rank rank, Rank size, const Status& status) const;

 private:
  struct Entry {
    std::atomic<uint64_t> number{0};  // 1 + its running number; 0: never used
    std::atomic<uint64_t> begin{0};
    std::atomic<uint64_t> end{0};  // 0: under way
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> kind_and_root{0};
    std::atomic<uint32_t> sequence{0};
    std::atomic<uint32_t> code{0};
  };

  TickScale scale_;
  std::atomic<uint64_t> next_{0};
  std::array<Entry, kEntries> entries_;
};

}  // namespace gimbal
