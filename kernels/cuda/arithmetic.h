// What is done with elements: one class for each way to combine values, with the same interface.
//
//   Element, Partial   in memory: the element type and the accumulator type (base/types.h)
//   Value              in registers
//   load, load_partial, combine, scale, store (divided, rounded), store_partial
//
// The operations of one class that are not worth code of their own are chosen at run time, and so uniformly for all threads.
#pragma once

#include <type_traits>

#include "base/types.h"
#include "kernels/cuda/element.h"

namespace gimbal::device {

// Sums and averages; a weighted operand is scaled.
template <class Type>
struct FloatSum {
  using Element = typename Type::Bits;
  using Partial = typename Type::Sum;
  using Value = Partial;
  static constexpr bool kScales = true;

  __device__ FloatSum(ReduceOp, double divisor_) : divisor(static_cast<Value>(divisor_)), divides(divisor_ != 1) {}
  __device__ __forceinline__ Value load(Element bits) const { return Type::decode(bits); }
  __device__ __forceinline__ Value load_partial(Partial value) const { return value; }
  __device__ __forceinline__ Value combine(Value a, Value b) const { return a + b; }
  __device__ __forceinline__ Value scale(Value value, double weight) const { return value * static_cast<Value>(weight); }
  __device__ __forceinline__ Element store(Value value) const {
    if (divides) value /= divisor;
    return Type::encode(quiet_nan(value));
  }
  __device__ __forceinline__ Partial store_partial(Value value) const { return quiet_nan(value); }

  Value divisor;
  bool divides;
};

template <class Type>
struct FloatProduct {
  using Element = typename Type::Bits;
  using Partial = typename Type::Sum;
  using Value = Partial;
  static constexpr bool kScales = false;

  __device__ FloatProduct(ReduceOp, double) {}
  __device__ __forceinline__ Value load(Element bits) const { return Type::decode(bits); }
  __device__ __forceinline__ Value load_partial(Partial value) const { return value; }
  __device__ __forceinline__ Value combine(Value a, Value b) const { return a * b; }
  __device__ __forceinline__ Element store(Value value) const { return Type::encode(quiet_nan(value)); }
  __device__ __forceinline__ Partial store_partial(Value value) const { return quiet_nan(value); }
};

// Minimum and maximum of floating types by their bits, as the CPU does it (kernels/extreme_float.cc): a key whose integer order
// is -inf < ... < -0 < +0 < ... < +inf, and one that wins for NaN.
template <typename T, T kInfinity, T kQuietNan>
struct FloatExtreme {
  using Element = T;
  using Partial = T;
  using Value = T;
  static constexpr bool kScales = false;
  static constexpr T kMagnitude = static_cast<T>(static_cast<std::make_unsigned_t<T>>(-1) >> 1);

  __device__ FloatExtreme(ReduceOp op, double)
      : is_maximum(op == ReduceOp::kMax), nan_key(op == ReduceOp::kMax ? kQuietNan : static_cast<T>(-1 - kQuietNan)) {}
  static __device__ __forceinline__ T flip_negative(T bits) { return bits < 0 ? static_cast<T>(bits ^ kMagnitude) : bits; }
  __device__ __forceinline__ Value load(Element bits) const {
    return static_cast<T>(bits & kMagnitude) > kInfinity ? nan_key : flip_negative(bits);
  }
  __device__ __forceinline__ Value load_partial(Partial bits) const { return load(bits); }
  __device__ __forceinline__ Value combine(Value a, Value b) const { return (a < b) == is_maximum ? b : a; }
  __device__ __forceinline__ Element store(Value key) const { return key == nan_key ? kQuietNan : flip_negative(key); }
  __device__ __forceinline__ Partial store_partial(Value key) const { return store(key); }

  bool is_maximum;
  T nan_key;
};

// Wraps; T is unsigned, as the sign does not show in the bits.
template <typename T>
struct IntegerSum {
  using Element = T;
  using Partial = T;
  using Value = T;
  static constexpr bool kScales = false;

  __device__ IntegerSum(ReduceOp, double) {}
  __device__ __forceinline__ Value load(Element value) const { return value; }
  __device__ __forceinline__ Value load_partial(Partial value) const { return value; }
  __device__ __forceinline__ Value combine(Value a, Value b) const { return static_cast<T>(a + b); }
  __device__ __forceinline__ Element store(Value value) const { return value; }
  __device__ __forceinline__ Partial store_partial(Value value) const { return value; }
};

template <typename T>
struct IntegerLogic : IntegerSum<T> {
  __device__ IntegerLogic(ReduceOp op_, double) : IntegerSum<T>(op_, 1), op(op_) {}
  __device__ __forceinline__ T combine(T a, T b) const {
    // A byte's product is computed in an int.
    if (op == ReduceOp::kProd) return static_cast<T>(a * b);
    if (op == ReduceOp::kBand) return static_cast<T>(a & b);
    if (op == ReduceOp::kBor) return static_cast<T>(a | b);
    return static_cast<T>(a ^ b);
  }

  ReduceOp op;
};

template <typename T>
struct IntegerExtreme : IntegerSum<T> {
  __device__ IntegerExtreme(ReduceOp op, double) : IntegerSum<T>(op, 1), is_maximum(op == ReduceOp::kMax) {}
  __device__ __forceinline__ T combine(T a, T b) const { return (a < b) == is_maximum ? b : a; }

  bool is_maximum;
};

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

// The exact sum, divided at the end and truncated toward zero.
template <typename T>
struct IntegerAverage {
  using Bits = std::conditional_t<sizeof(T) == 8, Uint128, uint64_t>;
  using Element = T;
  using Partial = std::conditional_t<std::is_unsigned_v<T>, Bits, std::conditional_t<sizeof(T) == 8, Int128, int64_t>>;
  using Value = Partial;
  static constexpr bool kScales = false;

  __device__ IntegerAverage(ReduceOp, double divisor_) : divisor(static_cast<int64_t>(divisor_)) {}
  __device__ __forceinline__ Value load(Element value) const { return static_cast<Value>(value); }
  __device__ __forceinline__ Value load_partial(Partial value) const { return value; }
  // Unsigned: it may wrap.
  __device__ __forceinline__ Value combine(Value a, Value b) const {
    return static_cast<Value>(static_cast<Bits>(a) + static_cast<Bits>(b));
  }
  __device__ __forceinline__ Element store(Value value) const {
    return static_cast<Element>(value / static_cast<Value>(divisor));
  }
  __device__ __forceinline__ Partial store_partial(Value value) const { return value; }

  int64_t divisor;
};

}  // namespace gimbal::device
