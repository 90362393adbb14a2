// Operations on integers in their own type. Sums and products wrap: their bits, and those of bitwise operations, do not depend
// on the sign, so these are computed on the unsigned type.
#include "kernels/finders.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_integer.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks for.
#include <hwy/highway.h>

#include "kernels/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gimbal::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
template <class D, class V>
HWY_INLINE V multiply(D, V a, V b) {
  return hn::Mul(a, b);
}
#else
// There are no vector products of bytes: the bytes at even places are multiplied as the lower halves of 16-bit lanes, then
// those at odd places.
template <class D, class V>
HWY_INLINE V multiply(D d, V a, V b) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    const hn::RepartitionToWide<D> wide;
    const auto wide_a = hn::BitCast(wide, a), wide_b = hn::BitCast(wide, b);
    const auto even = hn::And(hn::Mul(wide_a, wide_b), hn::Set(wide, 0xFF));
    const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(wide_a), hn::ShiftRight<8>(wide_b)));
    return hn::BitCast(d, hn::Or(even, odd));
  } else {
    return hn::Mul(a, b);
  }
}
#endif

template <typename T, ReduceOp kOp>
struct Integer {
  using Element = T;
  using Partial = T;
  static constexpr bool kOrdered = false;

  template <class D, class V>
  static HWY_INLINE V decode(D, V v) {
    return v;
  }
  template <class D, class V>
  static HWY_INLINE V encode(D, V v) {
    return v;
  }
  template <class D, class V>
  static HWY_INLINE V decode_partials(D, V v) {
    return v;
  }
  template <class D, class V>
  static HWY_INLINE V encode_partials(D, V v) {
    return v;
  }
  template <class D, class V>
  static HWY_INLINE V combine([[maybe_unused]] D d, V a, V b) {
    if constexpr (kOp == ReduceOp::kSum) return hn::Add(a, b);
    if constexpr (kOp == ReduceOp::kProd) return multiply(d, a, b);
    if constexpr (kOp == ReduceOp::kMin) return hn::Min(a, b);
    if constexpr (kOp == ReduceOp::kMax) return hn::Max(a, b);
    if constexpr (kOp == ReduceOp::kBand) return hn::And(a, b);
    if constexpr (kOp == ReduceOp::kBor) return hn::Or(a, b);
    if constexpr (kOp == ReduceOp::kBxor) return hn::Xor(a, b);
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

template <typename T>
ReduceFunction choose_operation(ReduceOp op) {
  using U = hwy::MakeUnsigned<T>;
  switch (op) {
    case ReduceOp::kSum:
      return reduce<Integer<U, ReduceOp::kSum>, true>;
    case ReduceOp::kProd:
      return reduce<Integer<U, ReduceOp::kProd>, false>;
    case ReduceOp::kMin:
      return reduce<Integer<T, ReduceOp::kMin>, false>;
    case ReduceOp::kMax:
      return reduce<Integer<T, ReduceOp::kMax>, false>;
    case ReduceOp::kBand:
      return reduce<Integer<U, ReduceOp::kBand>, false>;
    case ReduceOp::kBor:
      return reduce<Integer<U, ReduceOp::kBor>, false>;
    case ReduceOp::kBxor:
      return reduce<Integer<U, ReduceOp::kBxor>, false>;
    case ReduceOp::kAvg:
      return nullptr;
  }
  return nullptr;
}

ReduceFunction choose_integer(DType dtype, ReduceOp op) {
  return choose_for_integer(dtype, [op](auto zero) { return choose_operation<decltype(zero)>(op); });
}

}  // namespace gimbal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gimbal {

HWY_EXPORT(choose_integer);

ReduceFunction find_integer(DType dtype, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(choose_integer)(dtype, op); }

}  // namespace gimbal
#endif  // HWY_ONCE
