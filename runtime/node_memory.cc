#include "runtime/node_memory.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/deadline.h"

namespace gimbal {
namespace {

constexpr size_t kPage = 4096;

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Walks the layout; with a null base it only counts.
class Placer {
 public:
  explicit Placer(std::byte* base) : base_(base) {}
  template <typename T>
  T* place(size_t count, size_t alignment = kPage) {
    at_ = round_up(at_, alignment);
    T* const result = reinterpret_cast<T*>(base_ + at_);
    at_ += count * sizeof(T);
    return result;
  }
  [[nodiscard]] size_t bytes() const { return round_up(at_, kPage); }

 private:
  std::byte* base_;
  size_t at_ = 0;
};

}  // namespace

size_t NodeLayout::result_bytes() const {
  // Slices begin at multiples of 64 bytes, so one may be a line longer than its even share.
  return round_up(chunk_bytes / static_cast<size_t>(nranks) + 128, 64);
}

size_t NodeLayout::segment_bytes() const {
  const auto ranks = static_cast<size_t>(nranks);
  Placer placer(nullptr);
  placer.place<SharedFault>(1);
  placer.place<ParkingLot>(1, 64);
  placer.place<Doorbell>(ranks, 64);
  placer.place<RankControl>(ranks);
  placer.place<SmallSlot>(ranks * kSmallSlots);
  placer.place<std::byte>(ranks * kStageSlots * chunk_bytes);
  placer.place<std::byte>(ranks * kStageSlots * result_bytes());
  placer.place<std::byte>(ranks * ranks * kLaneSets * lane_bytes);
  return placer.bytes();
}

NodeMemory::NodeMemory(std::shared_ptr<SharedSegment> segment, const NodeLayout& layout)
    : segment_(std::move(segment)), layout_(layout) {
  GIMBAL_DCHECK(segment_->bytes() >= layout_.segment_bytes());
  const auto ranks = static_cast<size_t>(layout_.nranks);
  Placer placer(segment_->data());
  fault_ = placer.place<SharedFault>(1);
  lot_ = placer.place<ParkingLot>(1, 64);
  doorbells_ = placer.place<Doorbell>(ranks, 64);
  controls_ = placer.place<RankControl>(ranks);
  small_slots_ = placer.place<SmallSlot>(ranks * kSmallSlots);
  stages_ = placer.place<std::byte>(ranks * kStageSlots * layout_.chunk_bytes);
  results_ = placer.place<std::byte>(ranks * kStageSlots * layout_.result_bytes());
  lanes_ = placer.place<std::byte>(ranks * ranks * NodeLayout::kLaneSets * layout_.lane_bytes);
}

std::span<std::byte> NodeMemory::lane(size_t lane_set, Rank from, Rank to) const {
  const auto ranks = static_cast<size_t>(layout_.nranks);
  const size_t index = (lane_set * ranks + static_cast<size_t>(from)) * ranks + static_cast<size_t>(to);
  return {lanes_ + index * layout_.lane_bytes, layout_.lane_bytes};
}

bool NodeMemory::raise_fault(const Status& status, Rank origin) const {
  const auto rank = static_cast<uint32_t>(origin);
  uint32_t expected = SharedFault::kNone;
  const bool first = fault_->state.compare_exchange_strong(expected, SharedFault::kClaimed | rank, std::memory_order_relaxed);
  if (first) {
    fault_->code.store(static_cast<uint32_t>(status.code()), std::memory_order_relaxed);
    const size_t length = std::min(status.message().size(), sizeof(fault_->message) - 1);
    std::memcpy(fault_->message, status.message().data(), length);
    fault_->message[length] = '\0';
    // Pairs with the acquire in fault(): the sentence.
    fault_->state.store(SharedFault::kSet | rank, std::memory_order_release);
  }
  ring_all();
  return first;
}

NodeMemory::Fault NodeMemory::fault() const {
  // The writer needs a microsecond, unless it loses its CPU, or is killed, while writing.
  constexpr int64_t kWrittenWithinMs = 500;
  const Deadline deadline = Deadline::after_ms(kWrittenWithinMs);
  uint32_t state = fault_->state.load(std::memory_order_acquire);
  while ((state & SharedFault::kSet) == 0 && !deadline.passed()) {
    sched_yield();
    state = fault_->state.load(std::memory_order_acquire);
  }
  Fault fault;
  fault.origin = static_cast<Rank>(state & SharedFault::kRankMask);
  if ((state & SharedFault::kSet) == 0) {
    fault.status = {Code::kRemote, "rank " + std::to_string(fault.origin) + " is gone: it ended while it reported an error"};
    return fault;
  }
  const auto code = static_cast<Code>(fault_->code.load(std::memory_order_relaxed));
  const size_t length = strnlen(fault_->message, sizeof(fault_->message));
  fault.status = Status(loses_communicator(code) ? code : Code::kInternal, std::string(fault_->message, length));
  return fault;
}

void announce(RankControl& control, const Signature& signature, double weight, uint64_t send_place, uint64_t recv_place) {
  Announcement& entry = control.board[signature.sequence % kBoardEntries];
  entry.word.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // a reader that sees a new field sees the word gone
  entry.count.store(signature.count, std::memory_order_relaxed);
  entry.kind_and_root.store(pack_kind_and_root(signature), std::memory_order_relaxed);
  entry.weight.store(std::bit_cast<uint64_t>(weight), std::memory_order_relaxed);
  entry.send_place.store(send_place, std::memory_order_relaxed);
  entry.recv_place.store(recv_place, std::memory_order_relaxed);
  entry.word.store(pack_word(signature.sequence, hash_signature(signature)), std::memory_order_release);
}

}  // namespace gimbal
