// Products of floating types.
#include "kernels/cuda/kernel_set.h"

namespace gimbal::device {

const KernelSet* find_float_product(DType dtype, ReduceOp op) {
  if (op != ReduceOp::kProd) return nullptr;
  if (dtype == DType::kFloat32) return kernels_of<FloatProduct<Float32>>();
  if (dtype == DType::kFloat64) return kernels_of<FloatProduct<Float64>>();
  if (dtype == DType::kFloat16) return kernels_of<FloatProduct<Float16>>();
  if (dtype == DType::kBfloat16) return kernels_of<FloatProduct<Bfloat16>>();
  if (dtype == DType::kFloat8E4m3) return kernels_of<FloatProduct<Float8E4m3>>();
  if (dtype == DType::kFloat8E5m2) return kernels_of<FloatProduct<Float8E5m2>>();
  return nullptr;
}

}  // namespace gimbal::device
