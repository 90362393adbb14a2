// An order of additions as a 64-bit number. A node's hash does not depend on which operand is the left one (floating addition
// commutes) but does on what was added before (it does not associate): equal hashes mean bitwise equal sums, but for one chance
// in 2^64.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace gimbal {

// The finalizer of splitmix64: a bijection whose output bits depend on all input bits.
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

constexpr uint64_t order_of_input(Rank rank) { return mix64(0x9e3779b97f4a7c15U + static_cast<uint64_t>(rank)); }
constexpr uint64_t order_of_sum(uint64_t a, uint64_t b) { return mix64(a + b); }

// What every chunk's hash is after adding along the left-complete tree (kernels/reduce.h), or from left to right in rank order.
uint64_t tree_order(Rank nranks);
uint64_t rank_order(Rank nranks);

}  // namespace gimbal
