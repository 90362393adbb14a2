#include "base/types.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "gimbal/gimbal.h"

namespace gimbal {
namespace {

DType public_dtype(int index) { return static_cast<DType>(index); }
ReduceOp public_op(int index) { return static_cast<ReduceOp>(index); }

TEST(Types, ValuesEqualThePublicEnums) {
  EXPECT_EQ(static_cast<int>(DType::kInt8), GIMBAL_INT8);
  EXPECT_EQ(static_cast<int>(DType::kUint64), GIMBAL_UINT64);
  EXPECT_EQ(static_cast<int>(DType::kFloat16), GIMBAL_FLOAT16);
  EXPECT_EQ(static_cast<int>(DType::kBfloat16), GIMBAL_BFLOAT16);
  EXPECT_EQ(static_cast<int>(DType::kFloat64), GIMBAL_FLOAT64);
  EXPECT_EQ(static_cast<int>(DType::kFloat8E5m2), GIMBAL_FLOAT8_E5M2);
  EXPECT_EQ(kPublicDTypeCount, GIMBAL_FLOAT8_E5M2 + 1);
  EXPECT_EQ(static_cast<int>(ReduceOp::kSum), GIMBAL_SUM);
  EXPECT_EQ(static_cast<int>(ReduceOp::kAvg), GIMBAL_AVG);
  EXPECT_EQ(static_cast<int>(ReduceOp::kBxor), GIMBAL_BXOR);
  EXPECT_EQ(kReduceOpCount, GIMBAL_BXOR + 1);
  EXPECT_EQ(static_cast<int>(Collective::kAllReduce), GIMBAL_ALL_REDUCE);
  EXPECT_EQ(static_cast<int>(Collective::kBarrier), GIMBAL_BARRIER);
  EXPECT_EQ(static_cast<int>(Collective::kAllToAllV), GIMBAL_ALL_TO_ALL_V);
  EXPECT_EQ(kCollectiveCount, GIMBAL_ALL_TO_ALL_V + 1);
}

TEST(Types, EveryNameIsUniqueAndParsesBack) {
  std::set<std::string_view> names;
  for (int i = 0; i < kPublicDTypeCount; ++i) {
    names.insert(dtype_name(public_dtype(i)));
    EXPECT_EQ(parse_dtype(dtype_name(public_dtype(i))), public_dtype(i));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kPublicDTypeCount));
  for (int i = 0; i < kReduceOpCount; ++i) EXPECT_EQ(parse_reduce_op(reduce_op_name(public_op(i))), public_op(i));
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    EXPECT_EQ(parse_collective(collective_name(collective)), collective);
  }
}

TEST(Types, OtherCommonNamesOfTypesAreAccepted) {
  EXPECT_EQ(parse_dtype("fp16"), DType::kFloat16);
  EXPECT_EQ(parse_dtype("bf16"), DType::kBfloat16);
  EXPECT_EQ(parse_dtype("float32"), DType::kFloat32);
  EXPECT_EQ(parse_dtype("fp64"), DType::kFloat64);
}

TEST(Types, AnUnknownNameIsNothing) {
  EXPECT_EQ(parse_dtype("float128"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
  EXPECT_EQ(parse_reduce_op("mean"), std::nullopt);
  EXPECT_EQ(parse_collective("all-reduce"), std::nullopt);
}

TEST(Types, SizesAreThoseOfTheElements) {
  EXPECT_EQ(dtype_size(DType::kFloat8E4m3), 1u);
  EXPECT_EQ(dtype_size(DType::kBfloat16), 2u);
  EXPECT_EQ(dtype_size(DType::kFloat32), sizeof(float));
  EXPECT_EQ(dtype_size(DType::kFloat64), sizeof(double));
  EXPECT_EQ(dtype_size(DType::kUint128), 16u);
}

TEST(Types, SumsOfFloatingTypesBelowFloat64AccumulateInFloat32) {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat8E4m3, DType::kFloat8E5m2}) {
    EXPECT_EQ(accumulator_type(dtype, ReduceOp::kSum), DType::kFloat32) << dtype_name(dtype);
    EXPECT_EQ(accumulator_type(dtype, ReduceOp::kAvg), DType::kFloat32) << dtype_name(dtype);
  }
  EXPECT_EQ(accumulator_type(DType::kFloat64, ReduceOp::kSum), DType::kFloat64);
}

TEST(Types, MinimaNeedNoWiderType) {
  for (int i = 0; i < kPublicDTypeCount; ++i) {
    EXPECT_EQ(accumulator_type(public_dtype(i), ReduceOp::kMin), public_dtype(i));
    EXPECT_EQ(accumulator_type(public_dtype(i), ReduceOp::kMax), public_dtype(i));
  }
}

TEST(Types, IntegerAveragesAccumulateInATypeThatHoldsTheSumOfAllRanks) {
  EXPECT_EQ(accumulator_type(DType::kInt8, ReduceOp::kAvg), DType::kInt64);
  EXPECT_EQ(accumulator_type(DType::kUint32, ReduceOp::kAvg), DType::kUint64);
  EXPECT_EQ(accumulator_type(DType::kInt64, ReduceOp::kAvg), DType::kInt128);
  EXPECT_EQ(accumulator_type(DType::kUint64, ReduceOp::kAvg), DType::kUint128);
  EXPECT_EQ(accumulator_type(DType::kInt32, ReduceOp::kSum), DType::kInt32);  // sums wrap
}

TEST(Types, BitwiseOperationsAreForIntegersOnly) {
  EXPECT_TRUE(is_supported(DType::kUint8, ReduceOp::kBxor));
  EXPECT_FALSE(is_supported(DType::kFloat32, ReduceOp::kBand));
  EXPECT_FALSE(is_supported(DType::kFloat8E4m3, ReduceOp::kBor));
  EXPECT_TRUE(is_supported(DType::kFloat8E4m3, ReduceOp::kProd));
}

}  // namespace
}  // namespace gimbal
