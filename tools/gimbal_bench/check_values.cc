#include "tools/gimbal_bench/check_values.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gimbal::bench {
namespace {

// The finalizer of SplitMix64: every bit of the result depends on every bit of the argument.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t element_bits(const Element& element) { return mix(mix(element.round) ^ element.index); }

// Whether the rank is one of the `width` ranks that matter at this element.
bool in_window(Rank rank, Rank ranks, Rank width, uint64_t shared) {
  const auto n = static_cast<uint64_t>(ranks);
  return (static_cast<uint64_t>(rank) + shared % n) % n < static_cast<uint64_t>(width);
}

// A number from -limit to limit.
int64_t within(uint64_t bits, int64_t limit) {
  return static_cast<int64_t>(bits % (2 * static_cast<uint64_t>(limit) + 1)) - limit;
}

// With more ranks, the extreme of small types would be the same at every element, and so would the bits of an and or an or.
constexpr Rank kExtremeWidth = 2;

// base on every rank, and a difference that one rank adds and another takes away.
int64_t balanced(Rank ranks, Rank rank, uint64_t shared, int64_t base, int64_t most_difference) {
  if (ranks == 1) return base;
  const auto n = static_cast<uint64_t>(ranks);
  const uint64_t up = shared % n;
  const uint64_t down = (up + 1 + (shared >> 32) % (n - 1)) % n;
  const int64_t difference = 1 + static_cast<int64_t>((shared >> 8) % static_cast<uint64_t>(most_difference));
  if (static_cast<uint64_t>(rank) == up) return base + difference;
  if (static_cast<uint64_t>(rank) == down) return base - difference;
  return base;
}

double real_contribution(DType dtype, ReduceOp op, Rank ranks, Rank rank, uint64_t shared, uint64_t own) {
  const int64_t limit = exact_integers(dtype);
  const double sign = (own >> 63) != 0 ? -1 : 1;
  switch (op) {
    case ReduceOp::kSum: {
      const Rank width = std::min<Rank>(ranks, static_cast<Rank>(limit));
      if (!in_window(rank, ranks, width, shared)) return 0;
      return sign * static_cast<double>(1 + own % static_cast<uint64_t>(limit / width));
    }
    case ReduceOp::kAvg: {
      // Half of the limit for the common part of all ranks, half for the two differences.
      const int64_t base = within(shared >> 16, limit / 2 / ranks);
      return static_cast<double>(balanced(ranks, rank, shared, base, limit / 4));
    }
    case ReduceOp::kProd: {
      constexpr Rank kWidth = 4;
      if (!in_window(rank, ranks, std::min(ranks, kWidth), shared)) return sign;
      return sign * ((own & 1) != 0 ? 2.0 : 0.5);
    }
    case ReduceOp::kMin:
    case ReduceOp::kMax: {
      if (in_window(rank, ranks, std::min(ranks, kExtremeWidth), shared)) return static_cast<double>(within(own, limit));
      const int64_t half = limit / 2;
      const int64_t far = half + static_cast<int64_t>(own % static_cast<uint64_t>(half));
      return static_cast<double>(op == ReduceOp::kMin ? far : -far);
    }
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      break;  // for integers only
  }
  return 0;
}

bool is_signed(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kInt32 || dtype == DType::kInt64; }

// The value with its two highest bits set such that it is in the quarter of the type's range that loses against most others.
uint64_t far_from_extreme(DType dtype, ReduceOp op, uint64_t bits) {
  const size_t highest = 8 * dtype_size(dtype) - 1;
  const uint64_t high = uint64_t{1} << highest;
  const uint64_t second = high >> 1;
  const bool largest = op == ReduceOp::kMin;
  const uint64_t without = bits & ~(high | second);
  if (is_signed(dtype)) return without | (largest ? second : high);
  return without | (largest ? high | second : 0);
}

uint64_t integer_contribution(DType dtype, ReduceOp op, Rank ranks, Rank rank, uint64_t shared, uint64_t own) {
  const bool matters = in_window(rank, ranks, std::min(ranks, kExtremeWidth), shared);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kBxor:
      return own;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return matters ? own : far_from_extreme(dtype, op, own);
    case ReduceOp::kProd:
      return own | 1;
    case ReduceOp::kAvg: {
      // Every value fits in 8 bits: -80 to 80, or 20 to 120 without a sign.
      const int64_t base = is_signed(dtype) ? within(shared >> 16, 60) : 70 + within(shared >> 16, 30);
      return static_cast<uint64_t>(balanced(ranks, rank, shared, base, 20));
    }
    case ReduceOp::kBand:
      return matters ? own : ~uint64_t{0};
    case ReduceOp::kBor:
      return matters ? own : 0;
  }
  return 0;
}

// The low bits as the number that they are in the type.
int64_t as_signed(DType dtype, uint64_t bits) {
  const size_t unused = 64 - 8 * dtype_size(dtype);
  return static_cast<int64_t>(bits << unused) >> unused;
}
uint64_t as_unsigned(DType dtype, uint64_t bits) {
  const size_t unused = 64 - 8 * dtype_size(dtype);
  return bits << unused >> unused;
}

bool is_less(DType dtype, uint64_t a, uint64_t b) {
  if (is_signed(dtype)) return as_signed(dtype, a) < as_signed(dtype, b);
  return as_unsigned(dtype, a) < as_unsigned(dtype, b);
}

double combine_reals(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      break;  // for integers only
  }
  return 0;
}

uint64_t combine_integers(DType dtype, ReduceOp op, uint64_t a, uint64_t b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return is_less(dtype, b, a) ? b : a;
    case ReduceOp::kMax:
      return is_less(dtype, a, b) ? b : a;
    case ReduceOp::kBand:
      return a & b;
    case ReduceOp::kBor:
      return a | b;
    case ReduceOp::kBxor:
      return a ^ b;
  }
  return 0;
}

// IEEE's layout with these numbers of bits, for zero and normal values that need no rounding.
uint64_t encode_small_float(double real, int exponent_bits, int mantissa_bits) {
  const uint64_t sign = std::signbit(real) ? uint64_t{1} << (exponent_bits + mantissa_bits) : 0;
  if (real == 0) return sign;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(real), &exponent);  // 0.5 to 1
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<uint64_t>(std::ldexp(2 * fraction - 1, mantissa_bits));
  return sign | static_cast<uint64_t>(exponent - 1 + bias) << mantissa_bits | mantissa;
}

}  // namespace

int64_t exact_integers(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E5m2:
      return 8;
    case DType::kFloat8E4m3:
      return 16;
    case DType::kBfloat16:
      return 256;
    case DType::kFloat16:
      return 2048;
    case DType::kInt8:
    case DType::kUint8:
    case DType::kInt32:
    case DType::kUint32:
    case DType::kInt64:
    case DType::kUint64:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kInt128:
    case DType::kUint128:
      return int64_t{1} << 24;
  }
  return 0;
}

uint64_t random_bits(const Element& element, Rank source) {
  return mix(element_bits(element) ^ mix(static_cast<uint64_t>(source)));
}

Value contribution(DType dtype, ReduceOp op, Rank ranks, Rank rank, const Element& element) {
  const uint64_t shared = element_bits(element);
  const uint64_t own = random_bits(element, rank);
  if (is_floating(dtype)) return {real_contribution(dtype, op, ranks, rank, shared, own), 0};
  return {0, integer_contribution(dtype, op, ranks, rank, shared, own)};
}

Value combine(DType dtype, ReduceOp op, const Value& a, const Value& b) {
  if (is_floating(dtype)) return {combine_reals(op, a.real, b.real), 0};
  return {0, combine_integers(dtype, op, a.bits, b.bits)};
}

Value finish(DType dtype, ReduceOp op, Rank ranks, const Value& value) {
  if (op != ReduceOp::kAvg) return value;
  if (is_floating(dtype)) return {value.real / ranks, 0};
  return {0, static_cast<uint64_t>(static_cast<int64_t>(value.bits) / ranks)};
}

uint64_t encode(DType dtype, const Value& value) {
  switch (dtype) {
    case DType::kFloat64:
      return std::bit_cast<uint64_t>(value.real);
    case DType::kFloat32:
      return std::bit_cast<uint32_t>(static_cast<float>(value.real));
    case DType::kFloat16:
      return encode_small_float(value.real, 5, 10);
    case DType::kBfloat16:
      return encode_small_float(value.real, 8, 7);
    case DType::kFloat8E4m3:
      return encode_small_float(value.real, 4, 3);
    case DType::kFloat8E5m2:
      return encode_small_float(value.real, 5, 2);
    case DType::kInt8:
    case DType::kUint8:
    case DType::kInt32:
    case DType::kUint32:
    case DType::kInt64:
    case DType::kUint64:
    case DType::kInt128:
    case DType::kUint128:
      return value.bits;
  }
  return 0;
}

}  // namespace gimbal::bench
