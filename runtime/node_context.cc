#include "runtime/node_context.h"

#include <bit>
#include <numeric>
#include <string>

namespace gimbal {

Status mismatch(Rank rank, const Signature& mine, Rank peer, const Signature& theirs) {
  return {Code::kMismatch, "rank " + std::to_string(rank) + " called " + describe(mine) + ", but rank " + std::to_string(peer) +
                               " called " + describe(theirs)};
}

Status compare_announcements(NodeContext& context, const Signature& mine) {
  const uint32_t hash = hash_signature(mine);
  for (Rank peer = 0; peer < context.nranks; ++peer) {
    const Announcement& entry = context.memory.control(peer).board[mine.sequence % kBoardEntries];
    const uint64_t word = entry.word.load(std::memory_order_acquire);
    if (static_cast<uint32_t>(word >> 32) != mine.sequence) continue;
    const uint64_t count = entry.count.load(std::memory_order_relaxed);
    const uint64_t kind_and_root = entry.kind_and_root.load(std::memory_order_relaxed);
    const uint64_t weight = entry.weight.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.word.load(std::memory_order_relaxed) != word) continue;  // the peer is already a board further
    const Signature theirs = unpack_signature(mine.sequence, count, kind_and_root);
    if (static_cast<uint32_t>(word) != hash || theirs != mine) {
      return mismatch(context.members[static_cast<size_t>(context.rank)], mine, context.members[static_cast<size_t>(peer)],
                      theirs);
    }
    context.weights[static_cast<size_t>(peer)] = std::bit_cast<double>(weight);
  }
  return {};
}

Result<double> final_divisor(const NodeContext& context, ReduceOp op, bool normalize) {
  if (op == ReduceOp::kAvg) return static_cast<double>(context.nranks);
  return weights_divisor(context.weights, normalize);
}

Result<double> weights_divisor(std::span<const double> weights, bool normalize) {
  if (!normalize) return 1.0;
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sum == 0) return Status(Code::kInvalidArgument, "the weights of all ranks sum to 0: there is no weighted mean");
  return sum;
}

}  // namespace gimbal
