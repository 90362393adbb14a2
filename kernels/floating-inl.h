// Sums and products of floating types, in float32 or float64. Compiled once per instruction set.

#if defined(GIMBAL_KERNELS_FLOATING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GIMBAL_KERNELS_FLOATING_INL_H_
#undef GIMBAL_KERNELS_FLOATING_INL_H_
#else
#define GIMBAL_KERNELS_FLOATING_INL_H_
#endif

#include "kernels/convert-inl.h"
#include "kernels/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gimbal::HWY_NAMESPACE {

template <class Type, bool kProduct>
struct Floating {
  using Element = typename Type::Element;
  using Partial = typename Type::Partial;
  static constexpr bool kOrdered = true;

  template <class D, class V>
  static HWY_INLINE hn::Vec<D> decode(D d, V v) {
    return Type::decode(d, v);
  }
  template <class D, class V>
  static HWY_INLINE auto encode(D d, V v) {
    return Type::encode(d, quiet_nan(d, v));
  }
  template <class D, class V>
  static HWY_INLINE V decode_partials(D, V v) {
    return v;
  }
  template <class D, class V>
  static HWY_INLINE V encode_partials(D d, V v) {
    return quiet_nan(d, v);
  }
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    if constexpr (kProduct) return hn::Mul(a, b);
    return hn::Add(a, b);
  }
  template <class D, class V>
  static HWY_INLINE V scale(D, V v, V weight) {
    return hn::Mul(v, weight);
  }
  template <class D, class V>
  static HWY_INLINE V divide(D, V v, V divisor) {
    return hn::Div(v, divisor);
  }
};

// An average is a sum with a divisor. Only sums are a hot path, and not those of 8-bit types.
template <class Type>
ReduceFunction choose_operation(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return reduce<Floating<Type, false>, sizeof(typename Type::Element) != 1>;
    case ReduceOp::kProd:
      return reduce<Floating<Type, true>, false>;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      return nullptr;
  }
  return nullptr;
}

}  // namespace gimbal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // GIMBAL_KERNELS_FLOATING_INL_H_
