#include "runtime/cuda/staging_lanes.h"

#include <sched.h>

#include <algorithm>
#include <bit>

#include "base/process_registry.h"

namespace gimbal {
namespace {

// Pinning costs a millisecond whatever the size: small calls share what one page fault of the device brings in.
constexpr size_t kSmallestSlotBytes = size_t{64} << 10;
constexpr size_t kWordStride = 64;  // a line each: the device looks at them
// How long the end of a communicator waits for the device to pass what has been released.
constexpr int64_t kDrainMs = 5000;

// Lanes that a stream may still reach, when it does not move: never given back.
struct AbandonedLanes {
  std::mutex mutex;
  std::vector<std::shared_ptr<StagingLane>> lanes;  // guarded by mutex
};

void abandon(std::shared_ptr<StagingLane> lane) {
  auto& abandoned = ProcessRegistry::instance().permanent<AbandonedLanes>("cuda-abandoned-lanes");
  const std::lock_guard<std::mutex> lock(abandoned.mutex);
  abandoned.lanes.push_back(std::move(lane));
}

size_t round_up(size_t slot_bytes) {
  constexpr size_t kLarge = size_t{1} << 20;
  if (slot_bytes > kLarge) return (slot_bytes + kLarge - 1) / kLarge * kLarge;
  return std::bit_ceil(std::max(slot_bytes, kSmallestSlotBytes));
}

}  // namespace

void StagingSlot::arrived(void* slot) {
  auto* const self = static_cast<StagingSlot*>(slot);
  self->arrivals_.fetch_add(1, std::memory_order_release);  // pairs with has_arrived(): the copied bytes before the count
  self->bell_->ring();                                      // the lane is there: its end comes later on the stream
}

Result<std::unique_ptr<StagingLane>> StagingLane::create(Cuda& cuda, size_t slots, size_t slot_bytes,
                                                         const std::shared_ptr<ArrivalBell>& bell) {
  std::unique_ptr<StagingLane> lane(new StagingLane(cuda, slot_bytes));
  ASSIGN_OR_RETURN(lane->end_, cuda.create_event(false));
  ASSIGN_OR_RETURN(lane->memory_, cuda.allocate_pinned(slots * (slot_bytes + kWordStride)));
  auto* const words = static_cast<std::byte*>(lane->memory_);
  std::byte* const memory = words + slots * kWordStride;
  lane->slots_.reserve(slots);
  for (size_t i = 0; i < slots; ++i) {
    auto* const word = new (words + i * kWordStride) uint32_t(0);
    lane->slots_.push_back(std::make_unique<StagingSlot>(memory + i * slot_bytes, word, bell));
  }
  return lane;
}

StagingLane::~StagingLane() {
  if (memory_ != nullptr) cuda_.free_pinned(memory_);
  if (end_ != nullptr) cuda_.destroy_event(end_);
}

Status StagingLane::enqueue_end(CudaStream stream) {
  RETURN_IF_ERROR(cuda_.record(end_, stream));
  end_enqueued_ = true;
  return {};
}

Result<bool> StagingLane::has_ended() const {
  if (!end_enqueued_) return false;
  return cuda_.has_happened(end_);
}

Status StagingLane::wait_for_end() const { return cuda_.wait_for(end_); }

StagingLanes::~StagingLanes() {
  bell_->silence();
  const Deadline patience = Deadline::after_ms(kDrainMs);
  for (std::shared_ptr<StagingLane>& lane : lanes_) {
    while (true) {
      const Result<bool> ended = lane->has_ended();
      if (!ended.ok() || *ended) break;
      if (patience.passed() || !lane->end_enqueued_) {
        abandon(std::move(lane));
        break;
      }
      sched_yield();
    }
  }
}

Result<std::shared_ptr<StagingLane>> StagingLanes::take(size_t slots, size_t slot_bytes) {
  const size_t rounded = round_up(slot_bytes);
  std::shared_ptr<StagingLane> found;
  for (const std::shared_ptr<StagingLane>& lane : lanes_) {
    if (lane->slots() < slots || lane->slot_bytes() < slot_bytes) continue;
    if (found != nullptr && found->slot_bytes() <= lane->slot_bytes()) continue;
    ASSIGN_OR_RETURN(const bool ended, lane->has_ended());
    if (ended) found = lane;
  }
  if (found == nullptr) {
    ASSIGN_OR_RETURN(std::unique_ptr<StagingLane> made, StagingLane::create(cuda_, slots, rounded, bell_));
    found = std::move(made);
    lanes_.push_back(found);
    pinned_bytes_ += slots * rounded;
  }
  found->end_enqueued_ = false;
  return found;
}

}  // namespace gimbal
