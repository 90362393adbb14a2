// The shared memory of the ranks of one node: who is where in it, and what its words mean.
//
// One segment per communicator and node. Ranks are counted within the node (NodeShape::local_rank) but where it says otherwise;
// in a communicator of one node the two numbers are the same. Every word has one writer, unless it says otherwise. The segment
// begins as zeros, and zero is each word's initial meaning. Pages that nobody touches take no memory.
//
// Peers' memory is believed only for the data it carries: indices, sizes and offsets read from it are checked before use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/parking.h"
#include "base/status.h"
#include "base/types.h"
#include "runtime/signature.h"
#include "transport/shared_segment.h"

namespace gimbal {

// The first error on the node, for all its ranks. Written by whoever finds it first.
struct alignas(64) SharedFault {
  // state is kNone, kClaimed | rank while that rank writes the rest (should it die there, all know who), or kSet | rank.
  static constexpr uint32_t kNone = 0;
  static constexpr uint32_t kClaimed = 1U << 30;
  static constexpr uint32_t kSet = 1U << 31;
  static constexpr uint32_t kRankMask = kClaimed - 1;
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> code;
  char message[504];
};

// What a rank says about an operation that it is in. Entry `sequence % kBoardEntries` of its board. The fields are published by
// the store of `word` = sequence << 32 | hash; they are atomics because a rank that runs ahead overwrites an old entry while a
// slow peer may be looking at it.
struct alignas(64) Announcement {
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> count;
  std::atomic<uint64_t> kind_and_root;
  std::atomic<uint64_t> weight;      // bits of the double
  std::atomic<uint64_t> send_place;  // allocation number << 48 | byte offset, of registered memory; 0: not registered
  std::atomic<uint64_t> recv_place;
};
inline constexpr uint32_t kBoardEntries = 32;

// A small operation, data and flag in one line. `word` = epoch << 32 | hash of the signature, stored last.
struct alignas(64) SmallSlot {
  static constexpr size_t kPayloadBytes = 8192 - 32;
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> count;
  std::atomic<uint64_t> kind_and_root;
  std::atomic<uint64_t> weight;
  std::byte payload[kPayloadBytes];
};
static_assert(sizeof(SmallSlot) == 8192);
inline constexpr uint32_t kSmallSlots = 2;

// Slots of the staging area: twice the number of chunks that a rank may be ahead of its own reading (StagedExchange::kAhead).
inline constexpr uint32_t kStageSlots = 4;

// Says that a chunk is in its stage slot, and of which call it is. `word` = epoch << 32 | hash of the signature, stored last.
struct alignas(64) StageFlag {
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> count;
  std::atomic<uint64_t> kind_and_root;
  std::atomic<uint64_t> weight;
};

struct RankControl {
  StageFlag staged[kStageSlots];               // by epoch % kStageSlots
  alignas(64) std::atomic<uint32_t> reduced;   // chunk epochs whose own slice this rank has reduced
  alignas(64) std::atomic<uint32_t> finished;  // zero-copy operations that this rank has finished with its peers' memory
  alignas(64) std::atomic<uint32_t> departed;  // 1: this rank destroyed its communicator in good order
  std::atomic<uint32_t> cpu;                   // 1 + the CPU on which this rank waited last; 0: unknown
  Announcement board[kBoardEntries];
};

struct NodeLayout {
  Rank nranks = 1;
  size_t chunk_bytes = size_t{256} << 10;  // of one stage slot
  size_t lane_bytes = 0;                   // of one direction of one pair, one lane set
  static constexpr size_t kLaneSets = 2;   // collectives' schedules; send and recv

  [[nodiscard]] size_t result_bytes() const;  // of one result slot: a rank's slice of a chunk
  [[nodiscard]] size_t segment_bytes() const;
};

class NodeMemory {
 public:
  NodeMemory(std::shared_ptr<SharedSegment> segment, const NodeLayout& layout);

  [[nodiscard]] const NodeLayout& layout() const { return layout_; }
  [[nodiscard]] SharedSegment& segment() const { return *segment_; }

  [[nodiscard]] ParkingLot& lot() const { return *lot_; }
  [[nodiscard]] std::span<Doorbell> doorbells() const { return {doorbells_, static_cast<size_t>(layout_.nranks)}; }
  [[nodiscard]] RankControl& control(Rank rank) const { return controls_[rank]; }
  [[nodiscard]] SmallSlot& small_slot(Rank rank, uint32_t epoch) const {
    return small_slots_[static_cast<size_t>(rank) * kSmallSlots + epoch % kSmallSlots];
  }
  [[nodiscard]] std::byte* stage(Rank rank, uint32_t epoch) const {
    return stages_ + (static_cast<size_t>(rank) * kStageSlots + epoch % kStageSlots) * layout_.chunk_bytes;
  }
  [[nodiscard]] std::byte* result(Rank rank, uint32_t epoch) const {
    return results_ + (static_cast<size_t>(rank) * kStageSlots + epoch % kStageSlots) * layout_.result_bytes();
  }
  [[nodiscard]] std::span<std::byte> lane(size_t lane_set, Rank from, Rank to) const;

  void ring_all() const { ring(lot(), doorbells()); }
  void ring_rank(Rank rank) const { ring_one(lot(), doorbells()[static_cast<size_t>(rank)]); }

  // True when somebody of the node has raised a fault.
  [[nodiscard]] bool faulted() const { return fault_->state.load(std::memory_order_relaxed) != SharedFault::kNone; }
  // The first caller's fault sticks; wakes everybody. Whether this was the first. origin: by number in the communicator.
  bool raise_fault(const Status& status, Rank origin) const;
  struct Fault {
    Status status;
    Rank origin = -1;
  };
  // Call when faulted().
  [[nodiscard]] Fault fault() const;

 private:
  std::shared_ptr<SharedSegment> segment_;
  NodeLayout layout_;
  SharedFault* fault_;
  ParkingLot* lot_;
  Doorbell* doorbells_;
  RankControl* controls_;
  SmallSlot* small_slots_;
  std::byte* stages_;
  std::byte* results_;
  std::byte* lanes_;
};

// Publishes what `call` announces for a signature; see Announcement.
void announce(RankControl& control, const Signature& signature, double weight, uint64_t send_place, uint64_t recv_place);

inline uint64_t pack_word(uint32_t number, uint32_t hash) { return static_cast<uint64_t>(number) << 32 | hash; }
inline uint64_t pack_kind_and_root(const Signature& signature) {
  return static_cast<uint64_t>(signature.kind) << 32 | static_cast<uint32_t>(signature.root);
}
inline Signature unpack_signature(uint32_t sequence, uint64_t count, uint64_t kind_and_root) {
  return {sequence, count, static_cast<uint32_t>(kind_and_root >> 32), static_cast<int32_t>(kind_and_root & 0xffffffffU)};
}

}  // namespace gimbal
