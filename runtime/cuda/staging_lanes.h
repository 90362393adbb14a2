// Pinned memory through which calls on device memory go: lanes of slots, one lane per call under way, used again once the
// caller's stream has passed the call.
//
// A slot's piece takes turns: the stream copies in and reports (`arrivals` counts), a thread of the host exchanges it with the
// peers and lets the stream go on (`releases` counts, in pinned memory, for Cuda::wait_for_word), the stream copies out. Within
// a lane the stream's order keeps a slot's next piece behind its last.
//
// Thread safety: StagingLanes by the communicator's caller; a slot's counters as said above. Lanes outlive everything that the
// stream may still do with them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/cuda.h"
#include "base/deadline.h"
#include "base/status.h"

namespace gimbal {

// Wakes whoever waits for arrivals. Streams may ring long after the communicator is gone.
class ArrivalBell {
 public:
  explicit ArrivalBell(std::function<void()> ring) : ring_(std::move(ring)) {}
  void ring() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ring_) ring_();
  }
  void silence() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ring_ = nullptr;
  }

 private:
  std::mutex mutex_;
  std::function<void()> ring_;  // guarded by mutex_
};

class StagingSlot {
 public:
  StagingSlot(std::byte* memory, uint32_t* word, std::shared_ptr<ArrivalBell> bell)
      : memory_(memory), word_(word), bell_(std::move(bell)) {}
  StagingSlot(const StagingSlot&) = delete;
  StagingSlot& operator=(const StagingSlot&) = delete;

  [[nodiscard]] std::byte* memory() const { return memory_; }

  // The number of the slot's next piece, from 1.
  uint32_t next_piece() { return ++pieces_; }

  // The stream's side, enqueued: reports that what was enqueued before has arrived; waits until the piece is released.
  Status enqueue_report(Cuda& cuda, CudaStream stream) { return cuda.call_host(&StagingSlot::arrived, this, stream); }
  Status enqueue_wait(Cuda& cuda, uint32_t piece, CudaStream stream) { return cuda.wait_for_word(word_, piece, stream); }

  // The host's side.
  [[nodiscard]] bool has_arrived(uint32_t piece) const {
    return static_cast<int32_t>(arrivals_.load(std::memory_order_acquire) - piece) >= 0;  // pairs with arrived()
  }
  // What the host has written to the slot is the stream's.
  void release(uint32_t piece) { std::atomic_ref<uint32_t>(*word_).store(piece, std::memory_order_release); }

 private:
  static void arrived(void* slot);

  std::byte* const memory_;
  uint32_t* const word_;
  const std::shared_ptr<ArrivalBell> bell_;
  uint32_t pieces_ = 0;
  std::atomic<uint32_t> arrivals_{0};
};

class StagingLane {
 public:
  static Result<std::unique_ptr<StagingLane>> create(Cuda& cuda, size_t slots, size_t slot_bytes,
                                                     const std::shared_ptr<ArrivalBell>& bell);
  ~StagingLane();
  StagingLane(const StagingLane&) = delete;
  StagingLane& operator=(const StagingLane&) = delete;

  [[nodiscard]] size_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] size_t slots() const { return slots_.size(); }
  [[nodiscard]] StagingSlot& slot(size_t index) { return *slots_[index]; }

  // The call's last word on the stream.
  Status enqueue_end(CudaStream stream);
  // Whether the stream has passed it; false for ever when it could not be enqueued.
  [[nodiscard]] Result<bool> has_ended() const;
  Status wait_for_end() const;

 private:
  friend class StagingLanes;
  StagingLane(Cuda& cuda, size_t slot_bytes) : cuda_(cuda), slot_bytes_(slot_bytes) {}

  Cuda& cuda_;
  const size_t slot_bytes_;
  void* memory_ = nullptr;
  std::vector<std::unique_ptr<StagingSlot>> slots_;
  CudaEvent end_ = nullptr;
  bool end_enqueued_ = true;  // of the last call; a lane that none has used is free
};

class StagingLanes {
 public:
  StagingLanes(Cuda& cuda, std::function<void()> ring) : cuda_(cuda), bell_(std::make_shared<ArrivalBell>(std::move(ring))) {}
  // Waits for what the streams still have to do with the lanes, but not for a stream that does not move: then the memory is not
  // given back.
  ~StagingLanes();
  StagingLanes(const StagingLanes&) = delete;
  StagingLanes& operator=(const StagingLanes&) = delete;

  // A lane that is free. It counts as taken until the stream has passed its enqueue_end.
  Result<std::shared_ptr<StagingLane>> take(size_t slots, size_t slot_bytes);
  [[nodiscard]] size_t pinned_bytes() const { return pinned_bytes_; }

 private:
  Cuda& cuda_;
  std::shared_ptr<ArrivalBell> bell_;
  std::vector<std::shared_ptr<StagingLane>> lanes_;
  size_t pinned_bytes_ = 0;
};

}  // namespace gimbal
