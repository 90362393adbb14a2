// Averages of integers: sums in 64 or 128 bits, then a division that truncates toward zero.
//
// No instruction set of the x86 family divides vectors of integers, so these loops are plain C++.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/block_kernels.h"
#include "kernels/finders.h"

namespace gimbal {
namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

// Memory has only the alignment of bytes.
template <typename T>
T load_lane(const void* lanes, size_t i) {
  T lane;
  std::memcpy(&lane, static_cast<const unsigned char*>(lanes) + i * sizeof(T), sizeof(T));
  return lane;
}

template <typename T>
void store_lane(void* lanes, size_t i, T lane) {
  std::memcpy(static_cast<unsigned char*>(lanes) + i * sizeof(T), &lane, sizeof(T));
}

// Additions are unsigned: a sum of more than 2^32 operands wraps instead of being undefined.
template <typename Operand, typename Sum, typename Bits>
void load_loop(void* partials, const void* operand, size_t count, double) {
  for (size_t i = 0; i < count; ++i) store_lane(partials, i, static_cast<Sum>(load_lane<Operand>(operand, i)));
}

template <typename Operand, typename Sum, typename Bits>
void accumulate_loop(void* partials, const void* operand, size_t count, double) {
  for (size_t i = 0; i < count; ++i) {
    const Bits addend = static_cast<Bits>(static_cast<Sum>(load_lane<Operand>(operand, i)));
    store_lane(partials, i, static_cast<Bits>(load_lane<Bits>(partials, i) + addend));
  }
}

// Divisions take longer than stores of any kind.
template <typename T, typename Sum>
void round_loop(const void* const* operands, const Outputs& outputs, size_t count, double divisor) {
  const Sum whole_divisor = static_cast<Sum>(divisor);
  for (size_t i = 0; i < count; ++i) {
    store_lane(outputs.first, i, static_cast<T>(load_lane<Sum>(operands[0], i) / whole_divisor));
  }
  for (size_t k = 0; k < outputs.others.size(); ++k) std::memcpy(outputs.other(k), outputs.first, count * sizeof(T));
}

template <typename T>
void average(const ReduceArguments& arguments) {
  using Bits = std::conditional_t<sizeof(T) == 8, Uint128, uint64_t>;
  using Sum = std::conditional_t<std::is_unsigned_v<T>, Bits, std::conditional_t<sizeof(T) == 8, Int128, int64_t>>;
  static constexpr BlockKernels kKernels{.element_bytes = sizeof(T),
                                         .partial_bytes = sizeof(Sum),
                                         .load_element = load_loop<T, Sum, Bits>,
                                         .load_partial = load_loop<Sum, Sum, Bits>,
                                         .accumulate_element = accumulate_loop<T, Sum, Bits>,
                                         .accumulate_partial = accumulate_loop<Sum, Sum, Bits>,
                                         .round = round_loop<T, Sum>};
  reduce_blocks(kKernels, arguments);
}

}  // namespace

ReduceFunction find_integer_average(DType dtype, ReduceOp op) {
  if (op != ReduceOp::kAvg) return nullptr;
  return choose_for_integer(dtype, [](auto zero) -> ReduceFunction { return average<decltype(zero)>; });
}

}  // namespace gimbal
