// Minimum and maximum of integers.
#include "kernels/cuda/kernel_set.h"

namespace gimbal::device {

const KernelSet* find_integer_extreme(DType dtype, ReduceOp op) {
  if (op != ReduceOp::kMin && op != ReduceOp::kMax) return nullptr;
  if (dtype == DType::kInt8) return kernels_of<IntegerExtreme<int8_t>>();
  if (dtype == DType::kUint8) return kernels_of<IntegerExtreme<uint8_t>>();
  if (dtype == DType::kInt32) return kernels_of<IntegerExtreme<int32_t>>();
  if (dtype == DType::kUint32) return kernels_of<IntegerExtreme<uint32_t>>();
  if (dtype == DType::kInt64) return kernels_of<IntegerExtreme<int64_t>>();
  if (dtype == DType::kUint64) return kernels_of<IntegerExtreme<uint64_t>>();
  return nullptr;
}

}  // namespace gimbal::device
