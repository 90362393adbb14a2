#include "runtime/cuda/staging_plan.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace gimbal {
namespace {

// Of the collective, whoever the rank is: all ranks must cut alike.
struct Blocks {
  size_t send = 0;
  size_t recv = 0;
  bool shared = false;  // both sides are one area of the slot
};

Blocks blocks_of(Collective collective, Rank size) {
  const auto all = static_cast<size_t>(size);
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kSend:
    case Collective::kRecv:
      return {1, 1, true};
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return {all, 1, false};
    case Collective::kAllGather:
    case Collective::kGather:
      return {1, all, false};
    case Collective::kAllToAll:
      return {all, all, false};
    case Collective::kBarrier:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      return {};
  }
  return {};
}

bool stages_send(const Call& call, Rank rank) {
  const bool from_root = call.collective == Collective::kBroadcast || call.collective == Collective::kScatter;
  return call.collective != Collective::kRecv && (!from_root || rank == call.root);
}

bool stages_recv(const Call& call, Rank rank) {
  if (call.collective == Collective::kBroadcast) return rank != call.root;
  const bool to_root = call.collective == Collective::kReduce || call.collective == Collective::kGather;
  return call.collective != Collective::kSend && (!to_root || rank == call.root);
}

// The blocks of a _v side, packed in the slot from `at` on.
std::vector<StagedCopy> array_copies(std::span<const size_t> counts, const size_t* displacements, size_t element_bytes,
                                     size_t at) {
  std::vector<StagedCopy> copies;
  copies.reserve(counts.size());
  size_t packed = 0;
  for (size_t block = 0; block < counts.size(); ++block) {
    const size_t begin = displacements != nullptr ? displacements[block] : packed;
    if (counts[block] > 0) {
      copies.push_back({begin * element_bytes, at + packed * element_bytes, counts[block] * element_bytes});
    }
    packed += counts[block];
  }
  return copies;
}

size_t total(std::span<const size_t> counts) { return std::accumulate(counts.begin(), counts.end(), size_t{0}); }

}  // namespace

StagingPlan::StagingPlan(const Call& call, Rank rank, Rank size, size_t piece_bytes) : call_(call), rank_(rank), size_(size) {
  const Blocks blocks = blocks_of(call.collective, size);
  const size_t slot_blocks = blocks.shared ? 1 : blocks.send + blocks.recv;
  if (stages_send(call, rank)) send_ = {blocks.send, 0};
  if (stages_recv(call, rank)) recv_ = {blocks.recv, blocks.shared ? 0 : blocks.send};
  const size_t element = call.element_bytes();
  if (has_arrays()) {
    slot_bytes_ = total({call.recv_counts, static_cast<size_t>(size)}) * element;
    slot_bytes_ += call.send_counts != nullptr ? total({call.send_counts, static_cast<size_t>(size)}) * element : call.bytes();
    return;
  }
  if (slot_blocks == 0 || call.count == 0) return;
  // A peer may send or receive the same message from ordinary memory.
  const size_t most = is_message(call.collective) ? call.count : piece_bytes / (slot_blocks * element);
  piece_count_ = std::clamp<size_t>(most, 1, call.count);
  pieces_ = (call.count + piece_count_ - 1) / piece_count_;
  slot_bytes_ = piece_count_ * slot_blocks * element;
}

StagedPiece StagingPlan::piece(size_t index) const {
  if (has_arrays()) return whole_piece();
  StagedPiece piece;
  piece.call = call_;
  if (piece_count_ == 0) return piece;
  const size_t element = call_.element_bytes();
  const size_t begin = index * piece_count_;
  piece.call.count = std::min(piece_count_, call_.count - begin);
  const size_t bytes = piece.call.bytes();
  const auto fill = [&](const Side& side, std::vector<StagedCopy>& copies) {
    copies.reserve(side.blocks);
    for (size_t block = 0; block < side.blocks; ++block) {
      copies.push_back({(block * call_.count + begin) * element, (side.first + block) * bytes, bytes});
    }
  };
  fill(send_, piece.in);
  fill(recv_, piece.out);
  piece.send_offset = send_.first * bytes;
  piece.recv_offset = recv_.first * bytes;
  return piece;
}

StagedPiece StagingPlan::whole_piece() const {
  const size_t element = call_.element_bytes();
  const auto ranks = static_cast<size_t>(size_);
  StagedPiece piece;
  piece.call = call_;
  piece.call.send_displacements = nullptr;
  piece.call.recv_displacements = nullptr;
  if (call_.send_counts != nullptr) {
    piece.in = array_copies({call_.send_counts, ranks}, call_.send_displacements, element, 0);
    piece.recv_offset = total({call_.send_counts, ranks}) * element;
  } else {
    if (call_.count > 0) piece.in.push_back({0, 0, call_.bytes()});
    piece.recv_offset = call_.bytes();
  }
  piece.out = array_copies({call_.recv_counts, ranks}, call_.recv_displacements, element, piece.recv_offset);
  return piece;
}

}  // namespace gimbal
