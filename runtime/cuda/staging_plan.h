// How a call on device memory becomes calls on pinned memory: the pieces it is cut into, what is copied in before each piece
// and out after it. Pure arithmetic: knows no CUDA and no pointers but as numbers to offset.
//
// Elementwise collectives and those of equal blocks are cut into pieces of at most kPieceBytes, all ranks alike: a piece of the
// latter is the same part of every block. So pieces are small calls of the same collective, the copies of one overlap with the
// exchange of another, and a call of any size needs a few slots. The _v forms and messages are one piece.
#pragma once

#include <cstddef>
#include <vector>

#include "base/types.h"
#include "runtime/call.h"

namespace gimbal {

// Between a place in the caller's buffer and one in the slot, both in bytes.
struct StagedCopy {
  size_t device_offset;
  size_t slot_offset;
  size_t bytes;
};

struct StagedPiece {
  Call call;               // send and recv are set once the slot is known: place()
  size_t send_offset = 0;  // of the host call's buffers in the slot
  size_t recv_offset = 0;
  std::vector<StagedCopy> in;   // from the caller's send
  std::vector<StagedCopy> out;  // to the caller's recv
};

class StagingPlan {
 public:
  // On PCIe 4.0 x16 such a piece takes 160 us each way: enqueueing and waking, about 20 us together, are small beside it.
  static constexpr size_t kPieceBytes = size_t{4} << 20;
  // One on its way in, one with the peers, one on its way out, and one that may be late.
  static constexpr size_t kMostSlots = 4;

  // The call's arrays must outlive the plan.
  StagingPlan(const Call& call, Rank rank, Rank size, size_t piece_bytes = kPieceBytes);

  [[nodiscard]] size_t pieces() const { return pieces_; }
  [[nodiscard]] size_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] StagedPiece piece(size_t index) const;

 private:
  // One side of the call: how many blocks of the caller's this rank stages, 0 where it has no such buffer.
  struct Side {
    size_t blocks = 0;
    size_t first = 0;  // offset of them in the slot, in units of a block's piece
  };

  [[nodiscard]] bool has_arrays() const { return call_.recv_counts != nullptr; }
  [[nodiscard]] StagedPiece whole_piece() const;

  const Call call_;
  const Rank rank_;
  const Rank size_;
  Side send_;
  Side recv_;
  size_t piece_count_ = 0;  // elements of a block in a piece
  size_t pieces_ = 1;
  size_t slot_bytes_ = 0;
};

// Points the piece's call into a slot.
inline void place(StagedPiece& piece, std::byte* slot) {
  piece.call.send = slot + piece.send_offset;
  piece.call.recv = slot + piece.recv_offset;
}

}  // namespace gimbal
