// Sums, products and averages of the 16-bit floating types, in float32.
#include "kernels/finders.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_half.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks for.
#include <hwy/highway.h>

#include "kernels/floating-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gimbal::HWY_NAMESPACE {

ReduceFunction choose_half(DType dtype, ReduceOp op) {
  if (dtype == DType::kFloat16) return choose_operation<Float16>(op);
  if (dtype == DType::kBfloat16) return choose_operation<Bfloat16>(op);
  return nullptr;
}

}  // namespace gimbal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gimbal {

HWY_EXPORT(choose_half);

ReduceFunction find_half(DType dtype, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(choose_half)(dtype, op); }

}  // namespace gimbal
#endif  // HWY_ONCE
