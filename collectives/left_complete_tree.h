// The one order of additions of the deterministic mode (kernels/reduce.h): with 2^d the largest power of two <= n and m = n -
// 2^d, ranks 0..2m-1 first combine in pairs; the 2^d values that remain combine as a perfect binary tree of neighbours.
//
// 6 ranks (2^d = 4, m = 2):
//        0   1   2   3   4   5
//         \ /     \ /    |   |       pairs; value v = 0 1 2 3 from here on
//          0       1     2   3
//           \_____/       \_/
#pragma once

#include <bit>
#include <cstdint>

#include "base/types.h"

namespace gimbal {

class LeftCompleteTree {
 public:
  explicit LeftCompleteTree(Rank nranks)
      : values_(std::bit_floor(static_cast<uint32_t>(nranks))), pairs_(static_cast<uint32_t>(nranks) - values_) {}

  [[nodiscard]] uint32_t values() const { return values_; }  // 2^d
  [[nodiscard]] uint32_t levels() const { return static_cast<uint32_t>(std::countr_zero(values_)); }

  [[nodiscard]] bool is_paired(uint32_t value) const { return value < pairs_; }
  // The value that a rank's input goes into, and the first rank (of two, or the only one) of a value.
  [[nodiscard]] uint32_t value_of(Rank rank) const {
    const auto r = static_cast<uint32_t>(rank);
    return r < 2 * pairs_ ? r / 2 : r - pairs_;
  }
  [[nodiscard]] Rank first_rank(uint32_t value) const {
    return static_cast<Rank>(is_paired(value) ? 2 * value : value + pairs_);
  }

 private:
  uint32_t values_;
  uint32_t pairs_;
};

}  // namespace gimbal
