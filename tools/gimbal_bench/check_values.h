// The value of one element: what each rank contributes and what the reduction must be. See check_data.h for why it is exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace gimbal::bench {

// An element as an exact number: floating types in `real`, integers (their low bits) in `bits`.
struct Value {
  double real;
  uint64_t bits;
};

// What names an element: equal on all ranks.
struct Element {
  uint64_t round;
  uint64_t index;
};

// Any bits; for collectives without an operation.
uint64_t random_bits(const Element& element, Rank source);

Value contribution(DType dtype, ReduceOp op, Rank ranks, Rank rank, const Element& element);

// a op b, where the average only adds.
Value combine(DType dtype, ReduceOp op, const Value& a, const Value& b);

// The sum becomes the average; every other operation's value stays.
Value finish(DType dtype, ReduceOp op, Rank ranks, const Value& value);

// The type's bits of a value that it can represent exactly, zero or normal; little-endian in the low bytes.
uint64_t encode(DType dtype, const Value& value);

// The largest L such that the type holds every integer from -L to L (not more than 2^24).
int64_t exact_integers(DType dtype);

}  // namespace gimbal::bench
