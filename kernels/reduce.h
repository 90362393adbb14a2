// k-way reduction and copy on host memory: every sum that Gimbal makes on a CPU is made here.
//
// Semantics (docs/numerics.md): operands are elements (the element type) or partials (accumulator_type(dtype, op)). They are
// combined in rank order from left to right (SumOrder::kRankOrder) or along the left-complete binary tree over the operands
// (kTree), in the accumulator type; a destination gets elements, rounded once (to nearest even; e4m3 saturates) after division
// by `divisor`, or partials, unrounded and undivided. Integer sums and products wrap. min and max propagate NaN (as the quiet
// NaN of the type) and order -0 below +0, so that they do not depend on the order of operands. An integer average truncates
// toward zero.
//
// The left-complete binary tree over n leaves: with 2^d the largest power of two <= n and m = n - 2^d, leaves 0..2m-1 first
// combine in pairs (0,1), (2,3), ...; the 2^d resulting values then combine as a perfect binary tree of neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/plan_step.h"
#include "base/types.h"

namespace gimbal {

enum class SumOrder : uint8_t { kRankOrder, kTree };
// kStreaming: non-temporal stores, for destinations that are not read soon and exceed this rank's share of the cache.
enum class StoreMode : uint8_t { kCached, kStreaming };

struct ReduceSource {
  const void* data;
  Form form;
  // Multiplies the operand in the accumulator type before it is added; only for floating sums, 1 otherwise.
  double weight = 1;
};

struct ReduceArguments {
  std::span<const ReduceSource>
      sources;  // at least one; any number. A source may equal a destination exactly, but not overlap it otherwise
  std::span<void* const> destinations;  // at least one; all get the same values
  Form destination_form = Form::kElement;
  size_t count = 0;  // elements
  SumOrder order = SumOrder::kRankOrder;
  StoreMode store = StoreMode::kCached;
  // So many destinations, the last ones, are stored through the cache in either mode: somebody reads them at once.
  size_t cached_destinations = 0;
  double divisor = 1;  // applied to elements only: number of ranks for averages, sum of weights for weighted means
};

using ReduceFunction = void (*)(const ReduceArguments& arguments);

// The function for a type and an operation, with the best instruction set of this CPU. Null when !is_supported(dtype, op).
// Look it up once per plan. Pointers need only the alignment of a byte.
ReduceFunction find_reduce(DType dtype, ReduceOp op);

// memcpy, with streaming stores on demand. The ranges must not overlap.
void copy_bytes(void* destination, const void* source, size_t bytes, StoreMode store);

}  // namespace gimbal
