// What the node-direct operations of one communicator share: the memory, who this rank is, and how many epochs have passed.
//
// Epochs count what all ranks do alike (small operations, staged chunks, zero-copy operations); they are equal on all ranks at
// the beginning of an operation because all ranks call the same operations in the same order. They wrap; comparisons are by
// signed difference.
#pragma once

#include <atomic>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kernels/reduce.h"
#include "runtime/node_memory.h"
#include "runtime/signature.h"

namespace gimbal {

struct NodeContext {
  NodeMemory& memory;
  // Within the node.
  const Rank rank;
  const Rank nranks;
  // The communicator's numbers of the node's ranks; for what people read.
  std::vector<Rank> members;
  SumOrder order = SumOrder::kRankOrder;

  // How often a small exchange looks before it rings and returns: with a CPU per rank longer than a line takes to cross between
  // two caches (60 ns between near CPUs, 350 ns between far ones), so that an exchange that ends by then pays for nothing but
  // itself; else hardly at all.
  uint32_t first_looks = 8;
  static constexpr uint32_t kLooksWithOwnCpu = 40;

  uint32_t small_epoch = 0;
  uint32_t stage_epoch = 0;
  uint32_t direct_epoch = 0;

  // Room for one operand and one destination per rank, so that no operation allocates.
  std::vector<ReduceSource> sources;
  std::vector<void*> destinations;
  std::vector<double> weights;

  NodeContext(NodeMemory& node_memory, Rank this_rank, SumOrder sum_order)
      : memory(node_memory),
        rank(this_rank),
        nranks(node_memory.layout().nranks),
        members(static_cast<size_t>(nranks)),
        order(sum_order),
        sources(static_cast<size_t>(nranks)),
        destinations(static_cast<size_t>(nranks)),
        weights(static_cast<size_t>(nranks), 1.0) {
    std::iota(members.begin(), members.end(), Rank{0});
  }
};

// Whether a peer's counter has reached an epoch.
inline bool has_reached(const std::atomic<uint32_t>& counter, uint32_t epoch) {
  return static_cast<int32_t>(counter.load(std::memory_order_acquire) - epoch) >= 0;
}

// "rank 0 called all_reduce #1 (count 100, float, sum), but rank 1 called all_reduce #1 (count 200, float, sum)"
Status mismatch(Rank rank, const Signature& mine, Rank peer, const Signature& theirs);

// Compares this rank's announced signature with every peer's: MISMATCH when a peer is in the same sequence number with another
// call; says nothing about peers that have not announced the number. Reads every peer's weight into context.weights when all
// match.
Status compare_announcements(NodeContext& context, const Signature& mine);

// What the final division is: the number of ranks for an average, the sum of the weights for a weighted mean, else 1.
Result<double> final_divisor(const NodeContext& context, ReduceOp op, bool normalize);
// Of a weighted sum.
Result<double> weights_divisor(std::span<const double> weights, bool normalize);

}  // namespace gimbal
