// Handles of the C API: numbers that look like pointers, so that a destroyed or invented handle is recognised and never
// followed.
//
// handle = generation << 32 | index << 4 | kTag. A slot's generation changes when it is freed.
//
// Thread safety: every function may be called from any thread. find() is lock-free; its pointer is good until erase(), which
// the API's contract keeps away from a running call. share() is for those who come from other threads (abort, status).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gimbal {

template <typename T, uintptr_t kTag>
class HandleTable {
 public:
  // 0 when all 2^18 slots are taken.
  uintptr_t insert(std::shared_ptr<T> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty() && !grow()) return 0;
    const uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = *slot_at(index);
    const uintptr_t handle = (static_cast<uintptr_t>(++slot.generation) << 32) | (static_cast<uintptr_t>(index) << 4) | kTag;
    slot.pointer.store(object.get(), std::memory_order_relaxed);
    slot.object = std::move(object);
    slot.handle.store(handle, std::memory_order_release);  // pairs with the acquire in find(): pointer before handle
    return handle;
  }

  T* find(uintptr_t handle) const {
    Slot* slot = slot_of(handle);
    if (slot == nullptr || slot->handle.load(std::memory_order_acquire) != handle) return nullptr;
    return slot->pointer.load(std::memory_order_relaxed);
  }

  std::shared_ptr<T> share(uintptr_t handle) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = slot_of(handle);
    if (slot == nullptr || slot->handle.load(std::memory_order_relaxed) != handle) return nullptr;
    return slot->object;
  }

  // Around fork(): a child must not begin with the lock of a thread that it does not have.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // What the handle named; null when it named nothing.
  std::shared_ptr<T> erase(uintptr_t handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = slot_of(handle);
    if (slot == nullptr || slot->handle.load(std::memory_order_relaxed) != handle) return nullptr;
    slot->handle.store(0, std::memory_order_release);
    slot->pointer.store(nullptr, std::memory_order_relaxed);
    free_.push_back(static_cast<uint32_t>((handle >> 4) & kIndexMask));
    return std::move(slot->object);
  }

 private:
  static constexpr uint32_t kSlotsPerBlock = 256;
  static constexpr uint32_t kBlocks = 1024;
  static constexpr uintptr_t kIndexMask = (uintptr_t{1} << 28) - 1;

  struct Slot {
    std::atomic<uintptr_t> handle{0};
    std::atomic<T*> pointer{nullptr};
    std::shared_ptr<T> object;  // guarded by mutex_
    uint32_t generation = 0;    // guarded by mutex_
  };
  using Block = std::array<Slot, kSlotsPerBlock>;

  Slot* slot_at(uint32_t index) const {
    if (index >= kBlocks * kSlotsPerBlock) return nullptr;
    Block* block = blocks_[index / kSlotsPerBlock].load(std::memory_order_acquire);
    return block == nullptr ? nullptr : &(*block)[index % kSlotsPerBlock];
  }
  Slot* slot_of(uintptr_t handle) const {
    if ((handle & 15) != kTag) return nullptr;
    return slot_at(static_cast<uint32_t>((handle >> 4) & kIndexMask));
  }

  bool grow() {
    if (block_count_ == kBlocks) return false;
    storage_.push_back(std::make_unique<Block>());
    blocks_[block_count_].store(storage_.back().get(), std::memory_order_release);
    for (uint32_t i = kSlotsPerBlock; i-- > 0;) free_.push_back(block_count_ * kSlotsPerBlock + i);
    ++block_count_;
    return true;
  }

  mutable std::mutex mutex_;
  std::array<std::atomic<Block*>, kBlocks> blocks_ = {};
  std::vector<std::unique_ptr<Block>> storage_;
  std::vector<uint32_t> free_;
  uint32_t block_count_ = 0;
};

}  // namespace gimbal
