// The floating types as bit patterns, so that tests need no arithmetic of their own in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>

#include "gimbal/gimbal.h"

namespace gimbal::test {

struct FloatFormat {
  const char* name;
  gimbal_dtype_t dtype;
  size_t bytes;
  int mantissa_bits;
  uint64_t one;
  uint64_t three;
  uint64_t four;
  uint64_t largest;  // infinity; where the type has none, its largest number. What is above is NaN
  uint64_t nan;
  uint64_t sign;

  [[nodiscard]] bool is_nan(uint64_t bits) const { return (bits & ~sign) > largest; }

  void store(void* element, uint64_t bits) const { std::memcpy(element, &bits, bytes); }  // little-endian
  [[nodiscard]] uint64_t load(const void* element) const {
    uint64_t bits = 0;
    std::memcpy(&bits, element, bytes);
    return bits;
  }

  // A number of either sign with a random mantissa and a magnitude of 2^-3 to 2: sums of them round at every addition.
  uint64_t random(std::mt19937_64& generator) const {
    const uint64_t drawn = generator();
    const uint64_t mantissa = drawn & ((uint64_t{1} << mantissa_bits) - 1);
    const uint64_t exponent = (one >> mantissa_bits) - (drawn >> 54) % 4;
    return ((drawn >> 63) != 0 ? sign : 0) | exponent << mantissa_bits | mantissa;
  }
};

inline constexpr FloatFormat kFloatFormats[] = {
    {"float32", GIMBAL_FLOAT32, 4, 23, 0x3F800000, 0x40400000, 0x40800000, 0x7F800000, 0x7FC00000, 0x80000000},
    {"float64", GIMBAL_FLOAT64, 8, 52, 0x3FF0000000000000, 0x4008000000000000, 0x4010000000000000, 0x7FF0000000000000,
     0x7FF8000000000000, 0x8000000000000000},
    {"float16", GIMBAL_FLOAT16, 2, 10, 0x3C00, 0x4200, 0x4400, 0x7C00, 0x7E00, 0x8000},
    {"bfloat16", GIMBAL_BFLOAT16, 2, 7, 0x3F80, 0x4040, 0x4080, 0x7F80, 0x7FC0, 0x8000},
    {"float8_e4m3", GIMBAL_FLOAT8_E4M3, 1, 3, 0x38, 0x44, 0x48, 0x7E, 0x7F, 0x80},
    {"float8_e5m2", GIMBAL_FLOAT8_E5M2, 1, 2, 0x3C, 0x42, 0x44, 0x7C, 0x7E, 0x80},
};

}  // namespace gimbal::test
