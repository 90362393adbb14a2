#include "tests/support/values.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace gimbal::test {
namespace {

// The layout of a floating type below 32 bits.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
};

SmallFloat small_float(DType dtype) {
  if (dtype == DType::kFloat16) return {5, 10, true};
  if (dtype == DType::kBfloat16) return {8, 7, true};
  return dtype == DType::kFloat8E5m2 ? SmallFloat{5, 2, true} : SmallFloat{4, 3, false};
}

double decode(SmallFloat format, uint32_t bits) {
  const uint32_t mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const uint32_t exponent = (bits >> format.mantissa_bits) & ((1U << format.exponent_bits) - 1);
  const uint32_t top = (1U << format.exponent_bits) - 1;
  const double sign = (bits >> (format.mantissa_bits + format.exponent_bits)) != 0 ? -1 : 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  if (exponent == top && format.has_infinity) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == top && mantissa == (1U << format.mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  const double fraction = std::ldexp(mantissa, -format.mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

// The bits of value, rounded to nearest even; must lie within the type's range.
uint32_t encode(SmallFloat format, double value) {
  const int sign_shift = format.mantissa_bits + format.exponent_bits;
  const uint32_t sign = std::signbit(value) ? 1U << sign_shift : 0;
  const uint32_t infinity = ((1U << format.exponent_bits) - 1) << format.mantissa_bits;
  if (std::isnan(value)) return infinity | ((1U << format.mantissa_bits) - 1);
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const auto scaled = static_cast<uint32_t>(std::nearbyint(std::ldexp(std::abs(value), format.mantissa_bits - exponent)));
  // A normal number's leading one, and what rounding carries, add to the exponent field.
  return sign | (scaled + (static_cast<uint32_t>(exponent + bias - 1) << format.mantissa_bits));
}

template <typename T>
void store_as(void* to, double value) {
  const T typed = static_cast<T>(value);
  std::memcpy(to, &typed, sizeof(T));
}
template <typename T>
double load_as(const void* from) {
  T typed;
  std::memcpy(&typed, from, sizeof(T));
  return static_cast<double>(typed);
}

}  // namespace

void store_value(DType dtype, void* to, double value) {
  switch (dtype) {
    case DType::kInt8:
      return store_as<int8_t>(to, value);
    case DType::kUint8:
      return store_as<uint8_t>(to, value);
    case DType::kInt32:
      return store_as<int32_t>(to, value);
    case DType::kUint32:
      return store_as<uint32_t>(to, value);
    case DType::kInt64:
      return store_as<int64_t>(to, value);
    case DType::kUint64:
      return store_as<uint64_t>(to, value);
    case DType::kFloat32:
      return store_as<float>(to, value);
    case DType::kFloat64:
      return store_as<double>(to, value);
    case DType::kFloat16:
    case DType::kBfloat16: {
      const auto bits = static_cast<uint16_t>(encode(small_float(dtype), value));
      std::memcpy(to, &bits, sizeof(bits));
      return;
    }
    case DType::kFloat8E4m3:
    case DType::kFloat8E5m2: {
      const auto bits = static_cast<uint8_t>(encode(small_float(dtype), value));
      std::memcpy(to, &bits, sizeof(bits));
      return;
    }
    case DType::kInt128:
    case DType::kUint128:
      return;
  }
}

double load_value(DType dtype, const void* from) {
  switch (dtype) {
    case DType::kInt8:
      return load_as<int8_t>(from);
    case DType::kUint8:
      return load_as<uint8_t>(from);
    case DType::kInt32:
      return load_as<int32_t>(from);
    case DType::kUint32:
      return load_as<uint32_t>(from);
    case DType::kInt64:
      return load_as<int64_t>(from);
    case DType::kUint64:
      return load_as<uint64_t>(from);
    case DType::kFloat32:
      return load_as<float>(from);
    case DType::kFloat64:
      return load_as<double>(from);
    case DType::kFloat16:
    case DType::kBfloat16: {
      uint16_t bits = 0;
      std::memcpy(&bits, from, sizeof(bits));
      return decode(small_float(dtype), bits);
    }
    case DType::kFloat8E4m3:
    case DType::kFloat8E5m2: {
      uint8_t bits = 0;
      std::memcpy(&bits, from, sizeof(bits));
      return decode(small_float(dtype), bits);
    }
    case DType::kInt128:
    case DType::kUint128:
      break;
  }
  return 0;
}

double round_to(DType dtype, double value) {
  std::byte bytes[8];
  store_value(dtype, bytes, value);
  return load_value(dtype, bytes);
}

std::vector<std::byte> pack(DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
  for (size_t i = 0; i < values.size(); ++i) store_value(dtype, bytes.data() + i * dtype_size(dtype), values[i]);
  return bytes;
}

std::vector<double> unpack(DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / dtype_size(dtype));
  for (size_t i = 0; i < values.size(); ++i) values[i] = load_value(dtype, bytes.data() + i * dtype_size(dtype));
  return values;
}

}  // namespace gimbal::test
