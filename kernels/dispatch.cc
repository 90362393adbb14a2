// find_reduce: which file has the function of a type and an operation.
#include "kernels/finders.h"
#include "kernels/reduce.h"

namespace gimbal {

ReduceFunction find_reduce(DType dtype, ReduceOp op) {
  for (const auto find : {find_float, find_half, find_float8, find_float_extreme, find_integer, find_integer_average}) {
    if (const ReduceFunction function = find(dtype, op)) return function;
  }
  return nullptr;
}

}  // namespace gimbal
