#include "tests/unit/kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace gimbal::test {
namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

template <typename T, typename Combine>
T combine_all(SumOrder order, std::vector<T> values, Combine combine) {
  if (order == SumOrder::kTree) {
    size_t power = 1;
    while (power * 2 <= values.size()) power *= 2;
    const size_t extra = values.size() - power;
    std::vector<T> level;
    for (size_t i = 0; i < extra; ++i) level.push_back(combine(values[2 * i], values[2 * i + 1]));
    level.insert(level.end(), values.begin() + static_cast<std::ptrdiff_t>(2 * extra), values.end());
    for (; level.size() > 1; level.resize(level.size() / 2)) {
      for (size_t i = 0; i < level.size() / 2; ++i) level[i] = combine(level[2 * i], level[2 * i + 1]);
    }
    return level[0];
  }
  T result = values[0];
  for (size_t i = 1; i < values.size(); ++i) result = combine(result, values[i]);
  return result;
}

Int128 widen(DType dtype, Uint128 bits) {
  const size_t unused = 128 - 8 * dtype_size(dtype);
  const bool is_signed = dtype == DType::kInt8 || dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kInt128;
  return is_signed ? static_cast<Int128>(bits << unused) >> unused : static_cast<Int128>(bits << unused >> unused);
}

Int128 combine_integers(ReduceOp op, Int128 a, Int128 b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return static_cast<Int128>(static_cast<Uint128>(a) + static_cast<Uint128>(b));
    case ReduceOp::kProd:
      return static_cast<Int128>(static_cast<Uint128>(a) * static_cast<Uint128>(b));
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kBand:
      return a & b;
    case ReduceOp::kBor:
      return a | b;
    case ReduceOp::kBxor:
      return a ^ b;
  }
  return 0;
}

Uint128 reduce_integers(DType dtype, ReduceOp op, const std::vector<ReferenceOperand>& operands, Form destination_form,
                        double divisor) {
  const DType partial = accumulator_type(dtype, op);
  std::vector<Int128> values;
  for (const ReferenceOperand& operand : operands) {
    values.push_back(widen(operand.form == Form::kElement ? dtype : partial, operand.bits));
  }
  Int128 value = combine_all(SumOrder::kRankOrder, values, [op](Int128 a, Int128 b) { return combine_integers(op, a, b); });
  value = widen(partial, static_cast<Uint128>(value));  // wraps in the accumulator
  if (destination_form == Form::kElement && op == ReduceOp::kAvg) value /= static_cast<Int128>(divisor);
  return static_cast<Uint128>(value);
}

// -0 below +0, NaN wins.
double combine_extremes(bool maximum, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  const bool a_is_less = a < b || (a == b && std::signbit(a));
  return a_is_less == maximum ? b : a;
}

// Accumulator: float, or double for float64.
template <typename Accumulator>
Uint128 add_or_multiply(DType dtype, ReduceOp op, SumOrder order, const std::vector<ReferenceOperand>& operands,
                        Form destination_form, double divisor) {
  const FloatFormat element = float_format(dtype);
  const FloatFormat partial = float_format(accumulator_type(dtype, op));
  std::vector<Accumulator> values;
  for (const ReferenceOperand& operand : operands) {
    const double value = decode_float(operand.form == Form::kElement ? element : partial, static_cast<uint64_t>(operand.bits));
    const Accumulator scaled = static_cast<Accumulator>(value) * static_cast<Accumulator>(operand.weight);
    values.push_back(scaled);
  }
  const bool product = op == ReduceOp::kProd;
  const Accumulator value =
      combine_all(order, values, [product](Accumulator a, Accumulator b) -> Accumulator { return product ? a * b : a + b; });
  if (destination_form == Form::kPartial) return encode_float(partial, value);
  const Accumulator quotient = value / static_cast<Accumulator>(divisor);
  return encode_float(element, quotient);
}

}  // namespace

FloatFormat float_format(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {5, 10, false};
    case DType::kBfloat16:
      return {8, 7, false};
    case DType::kFloat32:
      return {8, 23, false};
    case DType::kFloat8E4m3:
      return {4, 3, true};
    case DType::kFloat8E5m2:
      return {5, 2, false};
    default:
      return {11, 52, false};
  }
}

double decode_float(FloatFormat format, uint64_t bits) {
  const int mantissa_bits = format.mantissa_bits;
  const uint64_t mantissa = bits & ((uint64_t{1} << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const bool negative = (bits >> (mantissa_bits + format.exponent_bits)) & 1;
  const bool top = exponent == (1 << format.exponent_bits) - 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  double value = 0;
  if (top && format.finite && mantissa == (uint64_t{1} << mantissa_bits) - 1) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (top && !format.finite) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(mantissa), 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(static_cast<double>(mantissa + (uint64_t{1} << mantissa_bits)), exponent - bias - mantissa_bits);
  }
  return negative ? -value : value;
}

uint64_t encode_float(FloatFormat format, double value) {
  const int mantissa_bits = format.mantissa_bits;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint64_t one = uint64_t{1} << mantissa_bits;
  const uint64_t infinity = ((uint64_t{1} << format.exponent_bits) - 1) << mantissa_bits;
  if (std::isnan(value)) return format.finite ? infinity | (one - 1) : infinity | (one >> 1);
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (mantissa_bits + format.exponent_bits) : 0;
  const uint64_t overflow = format.finite ? infinity | (one - 2) : infinity;
  if (std::isinf(value)) return sign | overflow;
  if (value == 0) return sign;
  int exponent = std::max(std::ilogb(value), 1 - bias);
  uint64_t digits = static_cast<uint64_t>(std::nearbyint(std::ldexp(std::abs(value), mantissa_bits - exponent)));
  if (digits == 2 * one) {
    digits = one;
    ++exponent;
  }
  if (digits < one) return sign | digits;
  const uint64_t field = static_cast<uint64_t>(exponent + bias);
  return sign | std::min((field << mantissa_bits) + (digits - one), overflow);
}

Uint128 reference_reduce(DType dtype, ReduceOp op, SumOrder order, const std::vector<ReferenceOperand>& operands,
                         Form destination_form, double divisor) {
  if (!is_floating(dtype)) return reduce_integers(dtype, op, operands, destination_form, divisor);
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
    std::vector<double> values;
    for (const ReferenceOperand& operand : operands) {
      values.push_back(decode_float(float_format(dtype), static_cast<uint64_t>(operand.bits)));
    }
    const bool maximum = op == ReduceOp::kMax;
    const double value = combine_all(order, values, [maximum](double a, double b) { return combine_extremes(maximum, a, b); });
    // One operand alone may be a NaN with a payload or a sign: encode_float makes it the quiet NaN.
    return encode_float(float_format(dtype), value);
  }
  if (dtype == DType::kFloat64) return add_or_multiply<double>(dtype, op, order, operands, destination_form, divisor);
  return add_or_multiply<float>(dtype, op, order, operands, destination_form, divisor);
}

}  // namespace gimbal::test
