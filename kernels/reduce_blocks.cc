// Forms, orders, weights, destinations and streaming, put together from the loops of one BlockKernels.
//
// A source may equal a destination: a loop reads a vector of every operand before it stores one to any destination, and where
// no single loop does everything, a block of all operands is read before any destination of it is written.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/block_kernels.h"

namespace gimbal {
namespace {

// Of partials: a block of the accumulator and those of eight operands fit in a first-level cache of 48 KiB.
constexpr size_t kBlockBytes = 4096;
// From this size on several destinations are stored from registers. Below it their lines are often in another core's cache, and
// a copy of each block, which the first-level cache still has, waits less for them than a loop that stores to all in turn: an
// all-reduce of 64 to 128 KiB over two ranks in two shots takes 0.82 of the time (bench/results/kernels-stores.txt).
constexpr size_t kRegisterBytes = size_t{128} << 10;
constexpr size_t kCacheLineBytes = 64;

struct alignas(kCacheLineBytes) Block {
  std::array<unsigned char, kBlockBytes> bytes;
  void* data() { return bytes.data(); }
};

void copy_block(const void* block, const Outputs& outputs, size_t bytes) {
  const StreamCopy stream_copy = find_stream_copy();
  for (size_t k = 0; k <= outputs.others.size(); ++k) {
    void* const target = k == 0 ? outputs.first : outputs.other(k - 1);
    k < outputs.streamed ? stream_copy(target, block, bytes) : static_cast<void>(std::memcpy(target, block, bytes));
  }
}

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

  void run() const {
    if (arguments_.store == StoreMode::kCached) return run_range(0, arguments_.count, 0);
    const size_t leading = leading_count();
    if (leading > 0) run_range(0, leading, 0);
    run_range(leading, arguments_.count, streamed_count(leading));
    stream_fence();
  }

 private:
  // Elements up to the first cache line of the first destination: none where elements lie across lines.
  size_t leading_count() const {
    const size_t past_line = reinterpret_cast<uintptr_t>(arguments_.destinations[0]) % kCacheLineBytes;
    const size_t bytes = past_line == 0 ? 0 : kCacheLineBytes - past_line;
    return bytes % out_bytes_ == 0 ? std::min(bytes / out_bytes_, arguments_.count) : 0;
  }

  // How many destinations, from the first one on, can get non-temporal stores from element `first`: whole lines are needed.
  size_t streamed_count(size_t first) const {
    const auto is_aligned = [&](const void* destination) {
      return (reinterpret_cast<uintptr_t>(destination) + first * out_bytes_) % kCacheLineBytes == 0;
    };
    const auto candidates = arguments_.destinations.first(arguments_.destinations.size() - arguments_.cached_destinations);
    return static_cast<size_t>(std::find_if_not(candidates.begin(), candidates.end(), is_aligned) - candidates.begin());
  }

  void run_range(size_t first, size_t last, size_t streamed) const {
    const bool copies = arguments_.destinations.size() > 1 && streamed == 0 && (last - first) * out_bytes_ < kRegisterBytes;
    if (is_single_loop() && !copies) return single_loop(first, last - first, outputs(first, streamed));
    const size_t block_count = kBlockBytes / kernels_.partial_bytes;
    for (size_t count = 0; first < last; first += count) {
      count = std::min(block_count, last - first);
      const Outputs all = outputs(first, streamed);
      evaluate(first, count, copies ? Outputs{all.first} : all);
      if (!copies) continue;
      for (size_t k = 0; k < all.others.size(); ++k) std::memcpy(all.other(k), all.first, count * out_bytes_);
    }
  }

  Outputs outputs(size_t first, size_t streamed) const {
    const size_t offset = first * out_bytes_;
    return {.first = static_cast<unsigned char*>(arguments_.destinations[0]) + offset,
            .others = arguments_.destinations.subspan(1),
            .others_offset = offset,
            .streamed = streamed};
  }

  bool is_single_loop() const {
    return plain_ && arguments_.sources.size() <= kMaxLoopOperands && loops()[arguments_.sources.size()] != nullptr &&
           (same_type_ || arguments_.destination_form == Form::kElement);
  }

  const std::array<CombineLoop, kMaxLoopOperands + 1>& loops() const {
    return arguments_.order == SumOrder::kTree ? kernels_.tree : kernels_.fold;
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

  void single_loop(size_t first, size_t count, const Outputs& outputs) const {
    const size_t operand_count = arguments_.sources.size();
    loops()[operand_count](operands(0, operand_count, first).data(), outputs, count, divisor_);
  }

  void evaluate(size_t first, size_t count, const Outputs& outputs) const {
    if (is_single_loop()) return single_loop(first, count, outputs);
    Block partials;
    if (arguments_.order == SumOrder::kTree) {
      evaluate_tree(0, arguments_.sources.size(), first, count, partials.data());
    } else {
      evaluate_fold(first, count, partials.data());
    }
    const void* const finished = partials.data();
    if (arguments_.destination_form == Form::kElement) return kernels_.round(&finished, outputs, count, divisor_);
    copy_block(finished, outputs, count * kernels_.partial_bytes);
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
      kernels_.fold8_to_partials(operands(0, kMaxLoopOperands, first).data(), Outputs{partials}, count, 1);
      for (next = kMaxLoopOperands; next + kMaxLoopOperands <= n; next += kMaxLoopOperands) {
        kernels_.accumulate8(operands(next, kMaxLoopOperands, first).data(), Outputs{partials}, count, 1);
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
      return kernels_.tree_to_partials[n](operands(index, n, first).data(), Outputs{partials}, count, 1);
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

void reduce_blocks(const BlockKernels& kernels, const ReduceArguments& arguments) { Reduction(kernels, arguments).run(); }

}  // namespace gimbal
