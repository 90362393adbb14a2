// float32 lanes from and to the 16- and 8-bit floating types, rounding to nearest even. Compiled once per instruction set.
//
// Precondition of every encode: a NaN lane is the quiet NaN of quiet_nan(). Neither direction depends on the processor's modes
// for subnormal numbers but for float32's own.

#if defined(GIMBAL_KERNELS_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GIMBAL_KERNELS_CONVERT_INL_H_
#undef GIMBAL_KERNELS_CONVERT_INL_H_
#else
#define GIMBAL_KERNELS_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace gimbal::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Which NaN an addition returns depends on the order in which the compiler writes its operands: all become the same one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V quiet_nan(D d, V v) {
  return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN()), v);
}

// A type that is its own accumulator.
template <typename T>
struct SameType {
  using Element = T;
  using Partial = T;
  template <class D, class V>
  static HWY_INLINE V decode(D, V v) {
    return v;
  }
  template <class D, class V>
  static HWY_INLINE V encode(D, V v) {
    return v;
  }
};

struct Bfloat16 {
  using Element = uint16_t;
  using Partial = float;
  template <class D, class V>
  static HWY_INLINE hn::Vec<D> decode(D d, V bits) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  }
  template <class D, class V>
  static HWY_INLINE auto encode(D, V v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    // The quiet NaN keeps its bits: its lower half is zero, and the addend does not carry.
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
    return hn::TruncateTo(hn::Rebind<uint16_t, D>(), hn::ShiftRight<16>(rounded));
  }
};

// A small floating type by integer arithmetic on float32's bits. kFinite: no infinity, one NaN (all ones), saturating (OCP
// e4m3); otherwise as IEEE 754 (fp16, OCP e5m2).
template <typename T, int kExponentBits, int kMantissaBits, bool kFinite>
struct SmallFloat {
  using Element = T;
  using Partial = float;
  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr int kSignShift = 31 - kExponentBits - kMantissaBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int32_t kMagnitude = (1 << (kExponentBits + kMantissaBits)) - 1;
  static constexpr int32_t kLeastNormal = 1 << kMantissaBits;
  static constexpr int32_t kInfinity = kFinite ? kMagnitude : kMagnitude - (kLeastNormal - 1);
  static constexpr int32_t kQuietNan = kFinite ? kMagnitude : kInfinity | (kLeastNormal >> 1);
  static constexpr int32_t kRebias = (127 - kBias) << 23;

  template <class D, class V>
  static HWY_INLINE hn::Vec<D> decode(D d, V bits) {
    const hn::RebindToSigned<D> di;
    const auto wide = hn::BitCast(di, hn::PromoteTo(hn::RebindToUnsigned<D>(), bits));
    const auto magnitude = hn::And(wide, hn::Set(di, kMagnitude));
    const auto sign = hn::ShiftLeft<kSignShift>(hn::Xor(wide, magnitude));
    const auto shifted = hn::ShiftLeft<kShift>(magnitude);
    const auto normal = hn::Add(shifted, hn::Set(di, kRebias));
    // (1 + fraction) * 2^e - 2^e is exact and has no subnormal operand.
    const auto one = hn::Set(di, kRebias + (1 << 23));
    const auto subnormal = hn::BitCast(di, hn::Sub(hn::BitCast(d, hn::Add(shifted, one)), hn::BitCast(d, one)));
    const auto is_subnormal = hn::Lt(magnitude, hn::Set(di, kLeastNormal));
    // Infinity and NaN keep their fraction; the fraction of e4m3's only NaN is not zero.
    const auto special = hn::Or(shifted, hn::Set(di, 0x7F800000));
    const auto is_special = hn::Gt(magnitude, hn::Set(di, kInfinity - 1));
    const auto finite = hn::IfThenElse(is_subnormal, subnormal, normal);
    return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
  }

  template <class D, class V>
  static HWY_INLINE auto encode(D d, V v) {
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(di, v);
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
    const auto sign = hn::Xor(bits, magnitude);
    const auto is_nan = hn::Gt(magnitude, hn::Set(di, 0x7F800000));
    // Anything above the greatest value: that value, or the power of two whose encoding is infinity.
    constexpr int32_t kGreatest = ((kFinite ? kMagnitude - 1 : kInfinity) << kShift) + kRebias;
    const auto clamped = hn::Min(magnitude, hn::Set(di, kGreatest));
    const auto odd = hn::And(hn::ShiftRight<kShift>(clamped), hn::Set(di, 1));
    const auto rounded = hn::Add(clamped, hn::Add(odd, hn::Set(di, (1 << (kShift - 1)) - 1)));
    const auto normal = hn::ShiftRight<kShift>(hn::Sub(rounded, hn::Set(di, kRebias)));
    // Adding a power of two whose last place is the least subnormal rounds to it, by the adder's own rounding to even.
    const auto magic = hn::Set(di, (127 + 24 - kBias - kMantissaBits) << 23);
    const auto sum = hn::Add(hn::BitCast(d, clamped), hn::BitCast(d, magic));
    const auto subnormal = hn::Sub(hn::BitCast(di, sum), magic);
    const auto is_subnormal = hn::Lt(clamped, hn::Set(di, kRebias + (1 << 23)));
    const auto finite = hn::IfThenElse(is_subnormal, subnormal, normal);
    const auto unsigned_sign = hn::ShiftRight<kSignShift>(hn::BitCast(hn::RebindToUnsigned<D>(), sign));
    const auto value = hn::Or(hn::IfThenElse(is_nan, hn::Set(di, kQuietNan), finite), hn::BitCast(di, unsigned_sign));
    return hn::TruncateTo(hn::Rebind<T, D>(), hn::BitCast(hn::RebindToUnsigned<D>(), value));
  }
};

using Float8E4m3 = SmallFloat<uint8_t, 4, 3, true>;
using Float8E5m2 = SmallFloat<uint8_t, 5, 2, false>;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// F16C rounds as asked for, whatever the processor's modes.
struct Float16 {
  using Element = uint16_t;
  using Partial = float;
  template <class D, class V>
  static HWY_INLINE hn::Vec<D> decode(D d, V bits) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  }
  template <class D, class V>
  static HWY_INLINE auto encode(D, V v) {
    return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
  }
};
#else
using Float16 = SmallFloat<uint16_t, 5, 10, false>;
#endif

}  // namespace gimbal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // GIMBAL_KERNELS_CONVERT_INL_H_
