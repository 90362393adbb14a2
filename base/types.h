// The vocabulary shared by all layers: ranks, element types, operations, collectives, and what each is called.
//
// Values equal those of the public C enums, so that the C boundary converts by a checked cast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gimbal {

using Rank = int32_t;

enum class DType : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kBfloat16 = 7,
  kFloat32 = 8,
  kFloat64 = 9,
  kFloat8E4m3 = 10,
  kFloat8E5m2 = 11,
  // Only as accumulators of 64-bit integer averages; never in the C API.
  kInt128 = 12,
  kUint128 = 13,
};
inline constexpr int kPublicDTypeCount = 12;

enum class ReduceOp : uint8_t { kSum = 0, kProd = 1, kMin = 2, kMax = 3, kAvg = 4, kBand = 5, kBor = 6, kBxor = 7 };
inline constexpr int kReduceOpCount = 8;

enum class Collective : uint8_t {
  kAllReduce = 0,
  kReduceScatter = 1,
  kAllGather = 2,
  kBroadcast = 3,
  kReduce = 4,
  kAllToAll = 5,
  kGather = 6,
  kScatter = 7,
  kBarrier = 8,
  kSend = 9,
  kRecv = 10,
  kAllGatherV = 11,
  kAllToAllV = 12,
};
inline constexpr int kCollectiveCount = 13;

constexpr size_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kUint8:
    case DType::kFloat8E4m3:
    case DType::kFloat8E5m2:
      return 1;
    case DType::kFloat16:
    case DType::kBfloat16:
      return 2;
    case DType::kInt32:
    case DType::kUint32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kUint64:
    case DType::kFloat64:
      return 8;
    case DType::kInt128:
    case DType::kUint128:
      return 16;
  }
  return 0;
}
bool is_floating(DType dtype);

// The type in which partial results of op over dtype are kept and travel (docs/numerics.md): float32 for sums, products and
// averages of floating types below float64, 64 or 128 bits for integer averages, the type itself otherwise.
DType accumulator_type(DType dtype, ReduceOp op);

// Bitwise operations exist for integers only.
bool is_supported(DType dtype, ReduceOp op);

// nccl-tests' names: "int8", "float", "bfloat16", ...; "sum", "avg", ...; "all_reduce", ....
std::string_view dtype_name(DType dtype);
std::string_view reduce_op_name(ReduceOp op);
std::string_view collective_name(Collective collective);

// Accept the names above; types also by their other common names ("half", "fp16", "float32", "double", ...).
std::optional<DType> parse_dtype(std::string_view name);
std::optional<ReduceOp> parse_reduce_op(std::string_view name);
std::optional<Collective> parse_collective(std::string_view name);

}  // namespace gimbal
