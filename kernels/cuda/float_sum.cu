// Sums and averages of the floating types that training uses.
#include "kernels/cuda/kernel_set.h"

namespace gimbal::device {

const KernelSet* find_float_sum(DType dtype, ReduceOp op) {
  if (op != ReduceOp::kSum && op != ReduceOp::kAvg) return nullptr;
  if (dtype == DType::kFloat32) return kernels_of<FloatSum<Float32>>();
  if (dtype == DType::kFloat64) return kernels_of<FloatSum<Float64>>();
  if (dtype == DType::kFloat16) return kernels_of<FloatSum<Float16>>();
  if (dtype == DType::kBfloat16) return kernels_of<FloatSum<Bfloat16>>();
  return nullptr;
}

}  // namespace gimbal::device
