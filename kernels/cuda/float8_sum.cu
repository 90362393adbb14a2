// Sums and averages of 8-bit floating types.
#include "kernels/cuda/kernel_set.h"

namespace gimbal::device {

const KernelSet* find_float8_sum(DType dtype, ReduceOp op) {
  if (op != ReduceOp::kSum && op != ReduceOp::kAvg) return nullptr;
  if (dtype == DType::kFloat8E4m3) return kernels_of<FloatSum<Float8E4m3>>();
  if (dtype == DType::kFloat8E5m2) return kernels_of<FloatSum<Float8E5m2>>();
  return nullptr;
}

}  // namespace gimbal::device
