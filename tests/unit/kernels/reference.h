// What reduce.h promises, written a second time for one element at a time: slow, obvious, and from other building blocks (ldexp
// and nearbyint instead of bit tricks, a pairing loop instead of a recursion, 128-bit integers for all integers).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/reduce.h"

namespace gimbal::test {

// A floating type of exponent_bits and mantissa_bits; finite: without infinity, with one NaN, saturating.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool finite;
};
FloatFormat float_format(DType dtype);

double decode_float(FloatFormat format, uint64_t bits);
// Rounds to nearest even. NaN is the positive quiet NaN without payload.
uint64_t encode_float(FloatFormat format, double value);

// One operand of one element: its bits in the element type or in the accumulator type.
struct ReferenceOperand {
  unsigned __int128 bits;
  Form form;
  double weight;
};

// The bits of the result for one element.
unsigned __int128 reference_reduce(DType dtype, ReduceOp op, SumOrder order, const std::vector<ReferenceOperand>& operands,
                                   Form destination_form, double divisor);

}  // namespace gimbal::test
