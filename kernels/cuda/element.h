// Floating element types: to and from the float32 (float64 for float64) that they are added in. docs/numerics.md is the law.
#pragma once

#include "kernels/cuda/platform.h"

namespace gimbal::device {

// Which NaN an addition returns depends on the machine: all become the same one.
__device__ __forceinline__ float quiet_nan(float value) { return value != value ? bit_cast<float>(0x7FC00000U) : value; }
__device__ __forceinline__ double quiet_nan(double value) {
  return value != value ? bit_cast<double>(uint64_t{0x7FF8000000000000U}) : value;
}

// Every encode() takes what quiet_nan() returned.
struct Float32 {
  using Bits = uint32_t;
  using Sum = float;
  static __device__ __forceinline__ float decode(Bits bits) { return bit_cast<float>(bits); }
  static __device__ __forceinline__ Bits encode(float value) { return bit_cast<Bits>(value); }
};

struct Float64 {
  using Bits = uint64_t;
  using Sum = double;
  static __device__ __forceinline__ double decode(Bits bits) { return bit_cast<double>(bits); }
  static __device__ __forceinline__ Bits encode(double value) { return bit_cast<Bits>(value); }
};

struct Float16 {
  using Bits = uint16_t;
  using Sum = float;
  static __device__ __forceinline__ float decode(Bits bits) { return half_to_float(bits); }
  // The machine's NaN has other bits.
  static __device__ __forceinline__ Bits encode(float value) { return value != value ? Bits{0x7E00} : float_to_half(value); }
};

struct Bfloat16 {
  using Bits = uint16_t;
  using Sum = float;
  static __device__ __forceinline__ float decode(Bits bits) { return bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  // The quiet NaN keeps its bits: its lower half is zero, and the addend does not carry.
  static __device__ __forceinline__ Bits encode(float value) {
    const uint32_t bits = bit_cast<uint32_t>(value);
    return static_cast<Bits>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
  }
};

// A byte of kExponentBits and kMantissaBits; kFinite: without infinity, with one NaN, saturating.
template <int kExponentBits, int kMantissaBits, bool kFinite>
struct Float8 {
  using Bits = uint8_t;
  using Sum = float;
  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr uint32_t kMagnitude = 0x7F;
  static constexpr uint32_t kInfinity = kFinite ? kMagnitude : kMagnitude - ((1U << kMantissaBits) - 1);
  static constexpr uint32_t kQuietNan = kFinite ? kMagnitude : kInfinity | 1U << (kMantissaBits - 1);
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;

  // As a float16 whose exponent has the same or one bit more, whose subnormals the machine knows; then by the difference of the
  // biases.
  static __device__ __forceinline__ float decode(Bits bits) {
    const uint32_t magnitude = bits & kMagnitude;
    const uint32_t sign = static_cast<uint32_t>(bits & 0x80U) << 8;
    if (kFinite && magnitude == kMagnitude) return bit_cast<float>(0x7FC00000U);
    const float value = half_to_float(static_cast<uint16_t>(sign | magnitude << (10 - kMantissaBits)));
    return kFinite ? value * static_cast<float>(1 << (15 - kBias)) : value;
  }

  static __device__ __forceinline__ Bits encode(float value) {
    const uint32_t bits = bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    const uint32_t sign = bits >> 24 & 0x80U;
    if (magnitude > 0x7F800000U) return static_cast<Bits>(kQuietNan);
    // Anything above the greatest value: that value, or the power of two whose encoding is infinity.
    constexpr uint32_t kGreatest = ((kFinite ? kMagnitude - 1 : kInfinity) << kShift) + kRebias;
    const uint32_t clamped = magnitude < kGreatest ? magnitude : kGreatest;
    if (clamped >= kRebias + (1U << 23)) {
      const uint32_t rounded = clamped + ((1U << (kShift - 1)) - 1) + (clamped >> kShift & 1U);
      return static_cast<Bits>(sign | (rounded - kRebias) >> kShift);
    }
    // Adding a power of two whose last place is the least subnormal rounds to it, by the adder's own rounding to even.
    constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 24 - kBias - kMantissaBits) << 23;
    const float sum = bit_cast<float>(clamped) + bit_cast<float>(kMagic);
    return static_cast<Bits>(sign | (bit_cast<uint32_t>(sum) - kMagic));
  }
};

using Float8E4m3 = Float8<4, 3, true>;
using Float8E5m2 = Float8<5, 2, false>;

}  // namespace gimbal::device
