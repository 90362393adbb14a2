// The values of docs/numerics.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/reduce.h"
#include "tests/unit/kernels/reduce_case.h"
#include "tests/unit/kernels/reference.h"

namespace gimbal::test {
namespace {

// One element per rank.
template <typename T>
T reduce_ranks(DType dtype, ReduceOp op, const std::vector<T>& ranks, SumOrder order = SumOrder::kRankOrder) {
  std::vector<ReduceSource> sources;
  for (const T& rank : ranks) sources.push_back({&rank, Form::kElement, 1});
  T result{};
  const std::array<void*, 1> destinations = {&result};
  const double divisor = op == ReduceOp::kAvg ? static_cast<double>(ranks.size()) : 1;
  find_reduce(dtype, op)({.sources = sources, .destinations = destinations, .count = 1, .order = order, .divisor = divisor});
  return result;
}

// As reduce_ranks, for any floating type.
double reduce_values(DType dtype, ReduceOp op, const std::vector<double>& values, SumOrder order = SumOrder::kRankOrder) {
  const FloatFormat format = float_format(dtype);
  if (dtype_size(dtype) == 1) {
    std::vector<uint8_t> ranks;
    for (const double value : values) ranks.push_back(static_cast<uint8_t>(encode_float(format, value)));
    return decode_float(format, reduce_ranks(dtype, op, ranks, order));
  }
  if (dtype_size(dtype) == 2) {
    std::vector<uint16_t> ranks;
    for (const double value : values) ranks.push_back(static_cast<uint16_t>(encode_float(format, value)));
    return decode_float(format, reduce_ranks(dtype, op, ranks, order));
  }
  if (dtype == DType::kFloat32) {
    return reduce_ranks(dtype, op, std::vector<float>(values.begin(), values.end()), order);
  }
  return reduce_ranks(dtype, op, values, order);
}

class FloatingExtreme : public testing::TestWithParam<DType> {};

TEST_P(FloatingExtreme, IsNanWhicheverRankHoldsTheNan) {
  std::vector<double> ranks = {NAN, 1, 3, 4};
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_TRUE(std::isnan(reduce_values(GetParam(), ReduceOp::kMin, ranks))) << "rank " << i;
    EXPECT_TRUE(std::isnan(reduce_values(GetParam(), ReduceOp::kMax, ranks))) << "rank " << i;
    std::rotate(ranks.begin(), ranks.begin() + 3, ranks.end());
  }
}

TEST_P(FloatingExtreme, HasNegativeZeroBelowPositiveZeroInAnyOrder) {
  for (const std::vector<double>& ranks : {std::vector<double>{0.0, -0.0}, std::vector<double>{-0.0, 0.0}}) {
    EXPECT_TRUE(std::signbit(reduce_values(GetParam(), ReduceOp::kMin, ranks)));
    EXPECT_FALSE(std::signbit(reduce_values(GetParam(), ReduceOp::kMax, ranks)));
  }
}

TEST_P(FloatingExtreme, IsTheGreatestMagnitudeOfTheRightSign) {
  // Infinite but in e4m3, which saturates.
  const double greatest = GetParam() == DType::kFloat8E4m3 ? 448 : std::numeric_limits<double>::infinity();
  const std::vector<double> ranks = {1, greatest, -greatest, -2};
  EXPECT_EQ(reduce_values(GetParam(), ReduceOp::kMin, ranks), -greatest);
  EXPECT_EQ(reduce_values(GetParam(), ReduceOp::kMax, ranks), greatest);
}

INSTANTIATE_TEST_SUITE_P(All, FloatingExtreme,
                         testing::Values(DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64,
                                         DType::kFloat8E4m3, DType::kFloat8E5m2),
                         [](const testing::TestParamInfo<DType>& parameter) {
                           return std::string(dtype_name(parameter.param));
                         });

TEST(IntegerAverage, TruncatesTowardZero) {
  EXPECT_EQ(reduce_ranks<int32_t>(DType::kInt32, ReduceOp::kAvg, {3, 4}), 3);
  EXPECT_EQ(reduce_ranks<int32_t>(DType::kInt32, ReduceOp::kAvg, {-3, -4}), -3);
}

TEST(IntegerAverage, DoesNotOverflow) {
  constexpr int32_t kMax32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
  constexpr uint64_t kMaxU64 = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(reduce_ranks<int32_t>(DType::kInt32, ReduceOp::kAvg, {kMax32, kMax32}), kMax32);
  EXPECT_EQ(reduce_ranks<int64_t>(DType::kInt64, ReduceOp::kAvg, {kMin64, kMin64, kMin64}), kMin64);
  EXPECT_EQ(reduce_ranks<uint64_t>(DType::kUint64, ReduceOp::kAvg, {kMaxU64, kMaxU64}), kMaxU64);
}

TEST(IntegerSum, Wraps) {
  EXPECT_EQ(reduce_ranks<int8_t>(DType::kInt8, ReduceOp::kSum, {120, 100}), -36);
  EXPECT_EQ(reduce_ranks<uint8_t>(DType::kUint8, ReduceOp::kSum, {200, 100}), 44);
}

TEST(Bfloat16Sum, IsRoundedOnceWhereverTheGreatAddendIs) {
  for (const SumOrder order : {SumOrder::kRankOrder, SumOrder::kTree}) {
    for (size_t rank = 0; rank < 8; ++rank) {
      std::vector<double> ranks(8, 1.0);
      ranks[rank] = 256;
      EXPECT_EQ(reduce_values(DType::kBfloat16, ReduceOp::kSum, ranks, order), 264) << "256 on rank " << rank;
    }
  }
}

TEST(Float8Sum, SaturatesInE4m3AndOverflowsInE5m2) {
  EXPECT_EQ(reduce_values(DType::kFloat8E4m3, ReduceOp::kSum, {448, 448}), 448);
  EXPECT_EQ(reduce_values(DType::kFloat8E4m3, ReduceOp::kSum, {-448, -448}), -448);
  EXPECT_EQ(reduce_values(DType::kFloat8E5m2, ReduceOp::kSum, {57344, 57344}), std::numeric_limits<double>::infinity());
}

TEST(FloatSum, ReturnsOneNanWhateverNansItAdds) {
  for (const uint32_t payload : {0x7FC00001u, 0xFFC12345u, 0x7F800001u}) {
    EXPECT_EQ(reduce_ranks<uint32_t>(DType::kFloat32, ReduceOp::kSum, {payload, 0x7FC0BEEFu}), 0x7FC00000u);
  }
}

TEST(FloatAverage, DividesInsteadOfMultiplyingByAReciprocal) {
  // 5 * fl(1/3) rounds to another float than 5 / 3.
  EXPECT_EQ(reduce_values(DType::kFloat32, ReduceOp::kAvg, {1, 2, 2}), static_cast<double>(5.0f / 3.0f));
}

TEST(SumOrder, DecidesTheBits) {
  const std::vector<double> ranks = {1e8, 1, -1e8, 1};
  EXPECT_EQ(reduce_values(DType::kFloat32, ReduceOp::kSum, ranks, SumOrder::kRankOrder), 1);
  EXPECT_EQ(reduce_values(DType::kFloat32, ReduceOp::kSum, ranks, SumOrder::kTree), 0);
}

}  // namespace
}  // namespace gimbal::test
