// Forms, orders, weights, destinations and streaming, put together from the loops of one BlockKernels.
//
// The operands are read block by block, and a block is complete before any destination of it is written; so a source may equal
// a destination.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/block_kernels.h"

namespace gimbal {
namespace {

// Of partials: a block of the accumulator, one of the result and those of eight operands fit in a first-level cache of 48 KiB.
constexpr size_t kBlockBytes = 4096;
// Small enough that the processor computes the next block while the non-temporal stores of this one drain: a bare loop with
// 1 KiB is 2 to 7 % slower than one with non-temporal stores of its own, with 4 KiB 3 to 17 %, with 16 KiB 15 to 53 %
// (bench/results/kernels-stream-block.txt).
constexpr size_t kStreamedBlockBytes = 1024;
constexpr size_t kCacheLineBytes = 64;

struct alignas(kCacheLineBytes) Block {
  std::array<unsigned char, kBlockBytes> bytes;
  void* data() { return bytes.data(); }
};

class Reduction {
 public:
  Reduction(const BlockKernels& kernels, const ReduceArguments& arguments)
      : kernels_(kernels),
        arguments_(arguments),
        same_type_(kernels.element_bytes == kernels.partial_bytes),
        out_bytes_(arguments.destination_form == Form::kElement ? kernels.element_bytes : kernels.partial_bytes),
        divisor_(arguments.destination_form == Form::kElement ? arguments.divisor : 1) {
    plain_ = std::all_of(arguments.sources.begin(), arguments.sources.end(), [this](const ReduceSource& source) {
      return source.weight == 1 && (same_type_ || source.form == Form::kElement);
    });
  }

  // Whether one loop over all elements does everything.
  bool is_single_loop() const {
    return is_single_loop_per_block() && arguments_.store == StoreMode::kCached && arguments_.destinations.size() == 1;
  }

  void run_single_loop() const { single_loop(0, arguments_.destinations[0], arguments_.count); }

  void run_blocks() {
    const bool streams = arguments_.store == StoreMode::kStreaming;
    const StreamCopy stream_copy = streams ? find_stream_copy() : nullptr;
    const auto destinations = arguments_.destinations;
    const size_t block_count = (streams ? kStreamedBlockBytes : kBlockBytes) / kernels_.partial_bytes;
    size_t count = std::min(streams ? block_count - leading_count() : block_count, arguments_.count);
    for (size_t first = 0; first < arguments_.count; first += count, count = std::min(block_count, arguments_.count - first)) {
      Block result;
      const size_t offset = first * out_bytes_;
      const size_t bytes = count * out_bytes_;
      void* const out = streams ? result.data() : static_cast<unsigned char*>(destinations[0]) + offset;
      evaluate(first, count, out);
      for (void* destination : destinations.subspan(streams ? 0 : 1)) {
        unsigned char* const target = static_cast<unsigned char*>(destination) + offset;
        streams ? stream_copy(target, out, bytes) : static_cast<void>(std::memcpy(target, out, bytes));
      }
    }
  }

 private:
  bool is_single_loop_per_block() const {
    return plain_ && arguments_.sources.size() <= kMaxLoopOperands && loops()[arguments_.sources.size()] != nullptr &&
           (same_type_ || arguments_.destination_form == Form::kElement);
  }

  const std::array<CombineLoop, kMaxLoopOperands + 1>& loops() const {
    return arguments_.order == SumOrder::kTree ? kernels_.tree : kernels_.fold;
  }

  // Elements by which the first block is shorter, so that all others begin on a cache line of the first destination.
  size_t leading_count() const {
    const size_t past_line = reinterpret_cast<uintptr_t>(arguments_.destinations[0]) % kCacheLineBytes;
    return past_line / out_bytes_;
  }

  const void* operand(size_t index, size_t first) const {
    const ReduceSource& source = arguments_.sources[index];
    const size_t bytes = source.form == Form::kElement ? kernels_.element_bytes : kernels_.partial_bytes;
    return static_cast<const unsigned char*>(source.data) + first * bytes;
  }

  std::array<const void*, kMaxLoopOperands> operands(size_t index, size_t operand_count, size_t first) const {
    std::array<const void*, kMaxLoopOperands> result;
    for (size_t i = 0; i < operand_count; ++i) result[i] = operand(index + i, first);
    return result;
  }

  void single_loop(size_t first, void* out, size_t count) const {
    const size_t operand_count = arguments_.sources.size();
    loops()[operand_count](operands(0, operand_count, first).data(), out, count, divisor_);
  }

  void evaluate(size_t first, size_t count, void* out) const {
    if (is_single_loop_per_block()) return single_loop(first, out, count);
    Block partials;
    if (arguments_.order == SumOrder::kTree) {
      evaluate_tree(0, arguments_.sources.size(), first, count, partials.data());
    } else {
      evaluate_fold(first, count, partials.data());
    }
    const void* const finished = partials.data();
    if (arguments_.destination_form == Form::kPartial) {
      std::memcpy(out, finished, count * kernels_.partial_bytes);
    } else {
      kernels_.round(&finished, out, count, divisor_);
    }
  }

  void load(size_t index, size_t first, size_t count, void* partials) const {
    const ReduceSource& source = arguments_.sources[index];
    const auto loop = source.form == Form::kElement ? kernels_.load_element : kernels_.load_partial;
    loop(partials, operand(index, first), count, source.weight);
  }

  void evaluate_fold(size_t first, size_t count, void* partials) const {
    const size_t n = arguments_.sources.size();
    size_t next = 1;
    if (plain_ && kernels_.fold8_to_partials != nullptr && n >= kMaxLoopOperands) {
      kernels_.fold8_to_partials(operands(0, kMaxLoopOperands, first).data(), partials, count, 1);
      for (next = kMaxLoopOperands; next + kMaxLoopOperands <= n; next += kMaxLoopOperands) {
        kernels_.accumulate8(operands(next, kMaxLoopOperands, first).data(), partials, count, 1);
      }
    } else {
      load(0, first, count, partials);
    }
    for (; next < n; ++next) {
      const ReduceSource& source = arguments_.sources[next];
      const auto loop = source.form == Form::kElement ? kernels_.accumulate_element : kernels_.accumulate_partial;
      loop(partials, operand(next, first), count, source.weight);
    }
  }

  // The operands index..index+n-1. One block of stack per level: 4 KiB times log2(n).
  void evaluate_tree(size_t index, size_t n, size_t first, size_t count, void* partials) const {
    if (n == 1) return load(index, first, count, partials);
    if (plain_ && n <= kMaxLoopOperands && kernels_.tree_to_partials[n] != nullptr) {
      return kernels_.tree_to_partials[n](operands(index, n, first).data(), partials, count, 1);
    }
    const size_t left = left_leaves(n);
    Block right;
    evaluate_tree(index, left, first, count, partials);
    evaluate_tree(index + left, n - left, first, count, right.data());
    kernels_.accumulate_partial(partials, right.data(), count, 1);
  }

  const BlockKernels& kernels_;
  const ReduceArguments& arguments_;
  bool same_type_;
  bool plain_;  // elements without weights
  size_t out_bytes_;
  double divisor_;
};

}  // namespace

void reduce_blocks(const BlockKernels& kernels, const ReduceArguments& arguments) {
  Reduction reduction(kernels, arguments);
  if (reduction.is_single_loop()) return reduction.run_single_loop();
  reduction.run_blocks();
  if (arguments.store == StoreMode::kStreaming) stream_fence();
}

}  // namespace gimbal
