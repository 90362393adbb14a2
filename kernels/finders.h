// The parts of find_reduce: each knows some types and operations, and returns null for the others.
#pragma once

#include "base/types.h"
#include "kernels/reduce.h"

namespace gimbal {

ReduceFunction find_float(DType dtype, ReduceOp op);            // float32 and float64: sum, prod, avg
ReduceFunction find_half(DType dtype, ReduceOp op);             // float16 and bfloat16: sum, prod, avg
ReduceFunction find_float8(DType dtype, ReduceOp op);           // e4m3 and e5m2: sum, prod, avg
ReduceFunction find_float_extreme(DType dtype, ReduceOp op);    // floating types: min, max
ReduceFunction find_integer(DType dtype, ReduceOp op);          // integers: all but avg
ReduceFunction find_integer_average(DType dtype, ReduceOp op);  // integers: avg

}  // namespace gimbal
