// Sums, products and averages of the 8-bit floating types, in float32.
#include "kernels/finders.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_float8.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks for.
#include <hwy/highway.h>

#include "kernels/floating-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gimbal::HWY_NAMESPACE {

ReduceFunction choose_float8(DType dtype, ReduceOp op) {
  if (dtype == DType::kFloat8E4m3) return choose_operation<Float8E4m3>(op);
  if (dtype == DType::kFloat8E5m2) return choose_operation<Float8E5m2>(op);
  return nullptr;
}

}  // namespace gimbal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gimbal {

HWY_EXPORT(choose_float8);

ReduceFunction find_float8(DType dtype, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(choose_float8)(dtype, op); }

}  // namespace gimbal
#endif  // HWY_ONCE
