// Inputs whose reduction is the same to the last bit in any order of additions, for every type, operation and number of ranks,
// and which every rank can predict; and the comparison of every element with what must have come out.
//
// How exactness is had:
//   floats, sum    integers whose magnitudes add up to at most L, the largest integer below which the type holds all (e5m2 8,
//   e4m3
//                  16, bfloat16 256, float16 2048, else 2^24): no partial sum, in whatever order, needs rounding even in the
//                  element type. With more ranks than L, a window of L ranks that moves from element to element contributes.
//   floats, avg    a common integer plus a difference that two ranks have with opposite signs: the sum is a multiple of the
//   ranks. floats, prod   signs, and powers of two at a window of four ranks: partial products stay within 2^-4 to 2^4.
//   integers       full-width values for sum and bxor (sums wrap), odd factors for prod (they never vanish), as floats for avg.
//   min max band bor   any value at a window of two ranks; the others' lie where they lose, so that every rank is seen to
//   count. no operation   all bits at random: nothing may be interpreted on the way.
//
// The values repeat after a prime number of elements, so that an element at the place of another is seen at all distances that
// chunks, slices and blocks have, and filling and comparing run at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "tools/gimbal_bench/collectives.h"

namespace gimbal::bench {

// The values' period in elements: prime.
inline constexpr size_t kPeriod = 8191;

// Bytes of min(kPeriod, elements) elements. round makes the values of one check differ from those of the next.
std::vector<std::byte> source_values(const Operation& operation, Rank ranks, Rank source, uint64_t round, size_t elements);
std::vector<std::byte> reduced_values(const Operation& operation, Rank ranks, uint64_t round, size_t elements);

// What a rank has before the call. Where the result will be, unless it is an input too, every bit differs from the right one.
void write_inputs(const Operation& operation, Rank rank, Rank ranks, uint64_t round, const Buffers& buffers);

// How many elements of the rank's result are not what they must be.
size_t count_wrong(const Operation& operation, Rank rank, Rank ranks, uint64_t round, const Buffers& buffers);

}  // namespace gimbal::bench
