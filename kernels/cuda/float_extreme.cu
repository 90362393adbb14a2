// Minimum and maximum of floating types, by their bits.
#include "kernels/cuda/kernel_set.h"

namespace gimbal::device {

const KernelSet* find_float_extreme(DType dtype, ReduceOp op) {
  if (op != ReduceOp::kMin && op != ReduceOp::kMax) return nullptr;
  if (dtype == DType::kFloat16) return kernels_of<FloatExtreme<int16_t, 0x7C00, 0x7E00>>();
  if (dtype == DType::kBfloat16) return kernels_of<FloatExtreme<int16_t, 0x7F80, 0x7FC0>>();
  if (dtype == DType::kFloat32) return kernels_of<FloatExtreme<int32_t, 0x7F800000, 0x7FC00000>>();
  if (dtype == DType::kFloat64) return kernels_of<FloatExtreme<int64_t, 0x7FF0000000000000, 0x7FF8000000000000>>();
  // No infinity: the greatest number is 0x7E.
  if (dtype == DType::kFloat8E4m3) return kernels_of<FloatExtreme<int8_t, 0x7E, 0x7F>>();
  if (dtype == DType::kFloat8E5m2) return kernels_of<FloatExtreme<int8_t, 0x7C, 0x7E>>();
  return nullptr;
}

}  // namespace gimbal::device
