#include "base/types.h"

#include <array>
#include <utility>

namespace gimbal {
namespace {

template <typename Enum, size_t kSize>
std::optional<Enum> find(const std::array<std::pair<std::string_view, Enum>, kSize>& table, std::string_view name) {
  for (const auto& [candidate, value] : table) {
    if (candidate == name) return value;
  }
  return std::nullopt;
}

constexpr std::array<std::pair<std::string_view, DType>, 24> kDTypes = {{
    {"int8", DType::kInt8},           {"uint8", DType::kUint8},         {"int32", DType::kInt32},
    {"uint32", DType::kUint32},       {"int64", DType::kInt64},         {"uint64", DType::kUint64},
    {"half", DType::kFloat16},        {"bfloat16", DType::kBfloat16},   {"float", DType::kFloat32},
    {"double", DType::kFloat64},      {"f8e4m3", DType::kFloat8E4m3},   {"f8e5m2", DType::kFloat8E5m2},
    {"char", DType::kInt8},           {"int", DType::kInt32},           {"float16", DType::kFloat16},
    {"fp16", DType::kFloat16},        {"bf16", DType::kBfloat16},       {"float32", DType::kFloat32},
    {"fp32", DType::kFloat32},        {"float64", DType::kFloat64},     {"fp64", DType::kFloat64},
    {"fp8_e4m3", DType::kFloat8E4m3}, {"fp8_e5m2", DType::kFloat8E5m2}, {"uint", DType::kUint32},
}};

constexpr std::array<std::pair<std::string_view, ReduceOp>, kReduceOpCount> kReduceOps = {{
    {"sum", ReduceOp::kSum},
    {"prod", ReduceOp::kProd},
    {"min", ReduceOp::kMin},
    {"max", ReduceOp::kMax},
    {"avg", ReduceOp::kAvg},
    {"band", ReduceOp::kBand},
    {"bor", ReduceOp::kBor},
    {"bxor", ReduceOp::kBxor},
}};

constexpr std::array<std::pair<std::string_view, Collective>, kCollectiveCount> kCollectives = {{
    {"all_reduce", Collective::kAllReduce},
    {"reduce_scatter", Collective::kReduceScatter},
    {"all_gather", Collective::kAllGather},
    {"broadcast", Collective::kBroadcast},
    {"reduce", Collective::kReduce},
    {"all_to_all", Collective::kAllToAll},
    {"gather", Collective::kGather},
    {"scatter", Collective::kScatter},
    {"barrier", Collective::kBarrier},
    {"send", Collective::kSend},
    {"recv", Collective::kRecv},
    {"all_gather_v", Collective::kAllGatherV},
    {"all_to_all_v", Collective::kAllToAllV},
}};

}  // namespace

bool is_floating(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBfloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat8E4m3:
    case DType::kFloat8E5m2:
      return true;
    case DType::kInt8:
    case DType::kUint8:
    case DType::kInt32:
    case DType::kUint32:
    case DType::kInt64:
    case DType::kUint64:
    case DType::kInt128:
    case DType::kUint128:
      return false;
  }
  return false;
}

DType accumulator_type(DType dtype, ReduceOp op) {
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kProd || op == ReduceOp::kAvg;
  if (is_floating(dtype)) return adds && dtype != DType::kFloat64 ? DType::kFloat32 : dtype;
  if (op != ReduceOp::kAvg) return dtype;
  switch (dtype) {
    case DType::kInt8:
    case DType::kInt32:
      return DType::kInt64;
    case DType::kUint8:
    case DType::kUint32:
      return DType::kUint64;
    case DType::kInt64:
      return DType::kInt128;
    case DType::kUint64:
      return DType::kUint128;
    case DType::kFloat16:
    case DType::kBfloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat8E4m3:
    case DType::kFloat8E5m2:
    case DType::kInt128:
    case DType::kUint128:
      return dtype;
  }
  return dtype;
}

bool is_supported(DType dtype, ReduceOp op) {
  const bool bitwise = op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
  return !(bitwise && is_floating(dtype));
}

std::string_view dtype_name(DType dtype) {
  for (const auto& [name, value] : kDTypes) {
    if (value == dtype) return name;
  }
  return dtype == DType::kInt128 ? "int128" : "uint128";
}

std::string_view reduce_op_name(ReduceOp op) { return kReduceOps[static_cast<size_t>(op)].first; }

std::string_view collective_name(Collective collective) { return kCollectives[static_cast<size_t>(collective)].first; }

std::optional<DType> parse_dtype(std::string_view name) { return find(kDTypes, name); }
std::optional<ReduceOp> parse_reduce_op(std::string_view name) { return find(kReduceOps, name); }
std::optional<Collective> parse_collective(std::string_view name) { return find(kCollectives, name); }

}  // namespace gimbal
