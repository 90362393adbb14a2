// The slots of one direction of an endpoint, and the chunks of them that wait to be sent. Neither allocates after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "transport/tcp_stream.h"

namespace gimbal {

// Slots of one size, given out last in, first out: the slot that was used last is the one that the cache holds. Memory of slots
// that were never in use together is never touched.
class SlotPool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  SlotPool(size_t slots, size_t slot_bytes)
      : stride_((slot_bytes + kLineBytes - 1) / kLineBytes * kLineBytes),
        memory_(new (std::align_val_t(kLineBytes)) std::byte[slots * stride_]) {
    for (size_t slot = slots; slot > 0; --slot) free_.push_back(static_cast<uint32_t>(slot - 1));
  }

  uint32_t take() {
    GIMBAL_DCHECK(!free_.empty());
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(uint32_t slot) { free_.push_back(slot); }
  [[nodiscard]] bool empty() const { return free_.empty(); }
  [[nodiscard]] std::byte* at(uint32_t slot) const { return memory_.get() + slot * stride_; }

 private:
  static constexpr size_t kLineBytes = 64;
  struct Delete {
    void operator()(std::byte* memory) const { operator delete[](memory, std::align_val_t(kLineBytes)); }
  };

  const size_t stride_;
  const std::unique_ptr<std::byte[], Delete> memory_;
  std::vector<uint32_t> free_;
};

// First in, first out.
class ChunkQueue {
 public:
  explicit ChunkQueue(size_t capacity) : ring_(capacity) {}
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const OutgoingChunk& front() const { return ring_[first_]; }
  void push(const OutgoingChunk& chunk) {
    GIMBAL_DCHECK(size_ < ring_.size());
    ring_[(first_ + size_++) % ring_.size()] = chunk;
  }
  void pop() {
    first_ = (first_ + 1) % ring_.size();
    --size_;
  }

 private:
  std::vector<OutgoingChunk> ring_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace gimbal
