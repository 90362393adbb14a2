// Operations on integers whose bits do not depend on the sign.
#include "kernels/cuda/kernel_set.h"

namespace gimbal::device {
namespace {

template <typename T>
const KernelSet* choose(ReduceOp op) {
  if (op == ReduceOp::kSum) return kernels_of<IntegerSum<T>>();
  return op == ReduceOp::kProd || op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor
             ? kernels_of<IntegerLogic<T>>()
             : nullptr;
}

}  // namespace

const KernelSet* find_integer(DType dtype, ReduceOp op) {
  if (is_floating(dtype)) return nullptr;
  switch (dtype_size(dtype)) {
    case 1:
      return choose<uint8_t>(op);
    case 4:
      return choose<uint32_t>(op);
    case 8:
      return choose<uint64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace gimbal::device
