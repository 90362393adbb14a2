// Sums, products and averages of float32 and float64.
#include "kernels/finders.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_float.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks for.
#include <hwy/highway.h>

#include "kernels/floating-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gimbal::HWY_NAMESPACE {

ReduceFunction choose_float(DType dtype, ReduceOp op) {
  if (dtype == DType::kFloat32) return choose_operation<SameType<float>>(op);
  if (dtype == DType::kFloat64) return choose_operation<SameType<double>>(op);
  return nullptr;
}

}  // namespace gimbal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gimbal {

HWY_EXPORT(choose_float);

ReduceFunction find_float(DType dtype, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(choose_float)(dtype, op); }

}  // namespace gimbal
#endif  // HWY_ONCE
