// Minimum and maximum of floating types.
//
// The bits of an element, as an integer, become a key whose integer order is: -inf < ... < -0 < +0 < ... < +inf. A NaN gets a
// key that wins. So the results are those of integers: they depend on no order, and -0 and +0 are different.
#include <limits>

#include "kernels/finders.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/extreme_float.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks for.
#include <hwy/highway.h>

#include "kernels/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gimbal::HWY_NAMESPACE {

// Any bits above kInfinity, the sign apart, are NaN.
template <typename T, T kInfinity, T kQuietNan, bool kMaximum>
struct Extreme {
  using Element = T;
  using Partial = T;
  static constexpr bool kOrdered = false;
  static constexpr T kMagnitude = std::numeric_limits<T>::max();
  // Above +inf, or below -inf, and the key of no other element.
  static constexpr T kNanKey = kMaximum ? kQuietNan : static_cast<T>(-1 - kQuietNan);

  template <class D, class V>
  static HWY_INLINE V flip_negative(D d, V v) {
    return hn::Xor(v, hn::And(hn::BroadcastSignBit(v), hn::Set(d, kMagnitude)));
  }
  template <class D, class V>
  static HWY_INLINE V decode(D d, V v) {
    const auto is_nan = hn::Gt(hn::And(v, hn::Set(d, kMagnitude)), hn::Set(d, kInfinity));
    return hn::IfThenElse(is_nan, hn::Set(d, kNanKey), flip_negative(d, v));
  }
  template <class D, class V>
  static HWY_INLINE V encode(D d, V key) {
    const auto bits = flip_negative(d, key);
    if constexpr (kMaximum) return bits;
    return hn::IfThenElse(hn::Eq(key, hn::Set(d, kNanKey)), hn::Set(d, kQuietNan), bits);
  }
  template <class D, class V>
  static HWY_INLINE V decode_partials(D d, V v) {
    return decode(d, v);
  }
  template <class D, class V>
  static HWY_INLINE V encode_partials(D d, V v) {
    return encode(d, v);
  }
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    if constexpr (kMaximum) return hn::Max(a, b);
    return hn::Min(a, b);
  }
  template <class D, class V>
  static HWY_INLINE V scale(D, V v, V) {
    return v;
  }
  template <class D, class V>
  static HWY_INLINE V divide(D, V v, V) {
    return v;
  }
};

template <typename T, T kInfinity, T kQuietNan>
ReduceFunction choose_extreme(ReduceOp op) {
  if (op == ReduceOp::kMin) return reduce<Extreme<T, kInfinity, kQuietNan, false>, false>;
  if (op == ReduceOp::kMax) return reduce<Extreme<T, kInfinity, kQuietNan, true>, false>;
  return nullptr;
}

ReduceFunction choose_float_extreme(DType dtype, ReduceOp op) {
  if (dtype == DType::kFloat16) return choose_extreme<int16_t, 0x7C00, 0x7E00>(op);
  if (dtype == DType::kBfloat16) return choose_extreme<int16_t, 0x7F80, 0x7FC0>(op);
  if (dtype == DType::kFloat32) return choose_extreme<int32_t, 0x7F800000, 0x7FC00000>(op);
  if (dtype == DType::kFloat64) return choose_extreme<int64_t, 0x7FF0000000000000, 0x7FF8000000000000>(op);
  // No infinity: the greatest number is 0x7E.
  if (dtype == DType::kFloat8E4m3) return choose_extreme<int8_t, 0x7E, 0x7F>(op);
  if (dtype == DType::kFloat8E5m2) return choose_extreme<int8_t, 0x7C, 0x7E>(op);
  return nullptr;
}

}  // namespace gimbal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gimbal {

HWY_EXPORT(choose_float_extreme);

ReduceFunction find_float_extreme(DType dtype, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(choose_float_extreme)(dtype, op); }

}  // namespace gimbal
#endif  // HWY_ONCE
