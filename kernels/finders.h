// The parts of find_reduce: each knows some types and operations, and returns null for the others.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "kernels/reduce.h"

namespace gimbal {

ReduceFunction find_float(DType dtype, ReduceOp op);            // float32 and float64: sum, prod, avg
ReduceFunction find_half(DType dtype, ReduceOp op);             // float16 and bfloat16: sum, prod, avg
ReduceFunction find_float8(DType dtype, ReduceOp op);           // e4m3 and e5m2: sum, prod, avg
ReduceFunction find_float_extreme(DType dtype, ReduceOp op);    // floating types: min, max
ReduceFunction find_integer(DType dtype, ReduceOp op);          // integers: all but avg
ReduceFunction find_integer_average(DType dtype, ReduceOp op);  // integers: avg

// choose(T()) for the integer type T that has the name; null for all other types.
template <typename Choose>
ReduceFunction choose_for_integer(DType dtype, const Choose& choose) {
  switch (dtype) {
    case DType::kInt8:  // NOLINT(bugprone-branch-clone): the types differ
      return choose(int8_t());
    case DType::kUint8:
      return choose(uint8_t());
    case DType::kInt32:
      return choose(int32_t());
    case DType::kUint32:
      return choose(uint32_t());
    case DType::kInt64:
      return choose(int64_t());
    case DType::kUint64:
      return choose(uint64_t());
    case DType::kFloat16:
    case DType::kBfloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat8E4m3:
    case DType::kFloat8E5m2:
    case DType::kInt128:
    case DType::kUint128:
      return nullptr;
  }
  return nullptr;
}

}  // namespace gimbal
