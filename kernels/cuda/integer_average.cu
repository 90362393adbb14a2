// Averages of integers: sums in 64 or 128 bits, one division at the end.
#include "kernels/cuda/kernel_set.h"

namespace gimbal::device {

const KernelSet* find_integer_average(DType dtype, ReduceOp op) {
  if (op != ReduceOp::kAvg) return nullptr;
  if (dtype == DType::kInt8) return kernels_of<IntegerAverage<int8_t>>();
  if (dtype == DType::kUint8) return kernels_of<IntegerAverage<uint8_t>>();
  if (dtype == DType::kInt32) return kernels_of<IntegerAverage<int32_t>>();
  if (dtype == DType::kUint32) return kernels_of<IntegerAverage<uint32_t>>();
  if (dtype == DType::kInt64) return kernels_of<IntegerAverage<int64_t>>();
  if (dtype == DType::kUint64) return kernels_of<IntegerAverage<uint64_t>>();
  return nullptr;
}

}  // namespace gimbal::device
