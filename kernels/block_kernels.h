// What one (type, operation) can do with arrays of operands: the inner loops of reduce.h, and how they are put together.
//
// The loops are compiled once per instruction set (reduce-inl.h, average_int.cc); reduce_blocks, which knows forms, orders,
// weights, destinations and streaming, is compiled once and calls them on blocks that stay in the first-level cache. A call
// on few elements without weights and partials goes to a single loop at once.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "kernels/reduce.h"

namespace gimbal {

// No loop reads more operands at a time: eight streams are what the prefetchers of common CPUs follow.
inline constexpr size_t kMaxLoopOperands = 8;

// Where a loop writes: every vector goes from registers to all destinations.
struct Outputs {
  void* first;
  std::span<void* const> others = {};
  size_t others_offset = 0;  // bytes from the beginning of each of the others to the place that corresponds to first
  // How many destinations, from the first one on, get non-temporal stores; these begin on a cache line. A loop may write them
  // through the cache all the same.
  size_t streamed = 0;

  void* other(size_t index) const { return static_cast<unsigned char*>(others[index]) + others_offset; }
};

// count elements of 1..8 operands -> outputs. Elements are divided by the divisor and rounded, partials are not.
// An output may equal an operand exactly.
using CombineLoop = void (*)(const void* const* operands, const Outputs& outputs, size_t count, double divisor);
// partials = partials ∘ weight * operand, or partials = weight * operand. The weight is 1 but for floating sums.
using AccumulateLoop = void (*)(void* partials, const void* operand, size_t count, double weight);

struct BlockKernels {
  size_t element_bytes;
  size_t partial_bytes;  // equal to element_bytes if and only if partials are elements

  // Index: number of operands. From elements to elements, from left to right; null above the last that exists.
  std::array<CombineLoop, kMaxLoopOperands + 1> fold{};
  // The same along the left-complete tree, from 4 operands (up to 3 it is the fold). The fold where order does not matter.
  std::array<CombineLoop, kMaxLoopOperands + 1> tree{};
  // From elements to partials along the tree, 4 to 8 operands. Null where sums of many operands are no hot path.
  std::array<CombineLoop, kMaxLoopOperands + 1> tree_to_partials{};
  // From 8 elements to partials, from left to right; partials = partials ∘ 8 elements. Null as above.
  CombineLoop fold8_to_partials = nullptr;
  CombineLoop accumulate8 = nullptr;

  AccumulateLoop load_element;
  AccumulateLoop load_partial;
  AccumulateLoop accumulate_element;
  AccumulateLoop accumulate_partial;
  // From one operand of partials to elements.
  CombineLoop round;
};

// The leaves of the left subtree of the left-complete binary tree over n >= 2 leaves.
constexpr size_t left_leaves(size_t n) {
  size_t half = 1;
  while (4 * half <= n) half *= 2;
  const size_t extra = n - 2 * half;
  return half + (extra < half ? extra : half);
}

void reduce_blocks(const BlockKernels& kernels, const ReduceArguments& arguments);

// Copies with non-temporal stores where whole vectors are aligned. The caller ends its copies with a fence.
using StreamCopy = void (*)(void* destination, const void* source, size_t bytes);
StreamCopy find_stream_copy();
// Orders the non-temporal stores before any later store, so that a later flag publishes them.
void stream_fence();

}  // namespace gimbal
