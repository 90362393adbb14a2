// The construction that check_data.h promises: exact in any order, and every rank's contribution seen.
#include "tools/gimbal_bench/check_values.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "tools/gimbal_bench/check_data.h"

namespace gimbal::bench {
namespace {

constexpr size_t kElements = 400;

double decode_small_float(uint64_t bits, int exponent_bits, int mantissa_bits) {
  const auto mantissa = static_cast<double>(bits & ((uint64_t{1} << mantissa_bits) - 1));
  const auto exponent = static_cast<int>(bits >> mantissa_bits & ((uint64_t{1} << exponent_bits) - 1));
  const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, 2 - (1 << (exponent_bits - 1)) - mantissa_bits);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  return sign * std::ldexp(1 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
}

double decode(DType dtype, uint64_t bits) {
  if (dtype == DType::kFloat64) return std::bit_cast<double>(bits);
  if (dtype == DType::kFloat32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (dtype == DType::kFloat16) return decode_small_float(bits, 5, 10);
  if (dtype == DType::kBfloat16) return decode_small_float(bits, 8, 7);
  if (dtype == DType::kFloat8E4m3) return decode_small_float(bits, 4, 3);
  return decode_small_float(bits, 5, 2);
}

uint64_t stored(DType dtype, const Value& value) {
  uint64_t bits = 0;
  const uint64_t encoded = encode(dtype, value);
  std::memcpy(&bits, &encoded, dtype_size(dtype));
  return bits;
}

struct Case {
  DType dtype;
  ReduceOp op;
};

std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (int dtype = 0; dtype < kPublicDTypeCount; ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      const Case candidate = {static_cast<DType>(dtype), static_cast<ReduceOp>(op)};
      if (is_supported(candidate.dtype, candidate.op)) cases.push_back(candidate);
    }
  }
  return cases;
}

class EveryTypeAndOperation : public ::testing::TestWithParam<std::tuple<Case, Rank>> {
 protected:
  [[nodiscard]] std::vector<Value> contributions(size_t index) const {
    const auto& [type_and_op, ranks] = GetParam();
    std::vector<Value> values;
    for (Rank rank = 0; rank < ranks; ++rank) {
      values.push_back(contribution(type_and_op.dtype, type_and_op.op, ranks, rank, {1, index}));
    }
    return values;
  }

  // Folds the values in the given order and fails where a partial result would have to be rounded to the element type.
  [[nodiscard]] Value folded(const std::vector<Value>& values, size_t begin, size_t step) const {
    const auto& [dtype, op] = std::get<0>(GetParam());
    Value partial = values[begin % values.size()];
    for (size_t i = 1; i < values.size(); ++i) {
      partial = combine(dtype, op, partial, values[(begin + i * step) % values.size()]);
      if (is_floating(dtype)) {
        EXPECT_EQ(decode(dtype, stored(dtype, partial)), partial.real);
      }
    }
    return partial;
  }
};

TEST_P(EveryTypeAndOperation, IsExactForwardsBackwardsAndFromTheMiddle) {
  const auto& [type_and_op, ranks] = GetParam();
  const auto& [dtype, op] = type_and_op;
  for (size_t index = 0; index < kElements; ++index) {
    const std::vector<Value> values = contributions(index);

    const Value forwards = finish(dtype, op, ranks, folded(values, 0, 1));
    const Value backwards = finish(dtype, op, ranks, folded(values, values.size() - 1, values.size() - 1));
    const Value from_middle = finish(dtype, op, ranks, folded(values, values.size() / 2, 1));

    EXPECT_EQ(stored(dtype, forwards), stored(dtype, backwards));
    EXPECT_EQ(stored(dtype, forwards), stored(dtype, from_middle));
    if (is_floating(dtype)) {
      EXPECT_EQ(decode(dtype, stored(dtype, forwards)), forwards.real);
    }
  }
}

TEST_P(EveryTypeAndOperation, ShowsTheAbsenceOfAnyRank) {
  const auto& [type_and_op, ranks] = GetParam();
  const auto& [dtype, op] = type_and_op;
  for (Rank missing = 0; ranks > 1 && missing < ranks; ++missing) {
    size_t seen = 0;
    for (size_t index = 0; index < kPeriod && seen == 0; ++index) {
      std::vector<Value> values = contributions(index);
      const Value whole = finish(dtype, op, ranks, folded(values, 0, 1));
      values.erase(values.begin() + missing);
      const Value without = finish(dtype, op, ranks, folded(values, 0, 1));
      if (stored(dtype, whole) != stored(dtype, without)) ++seen;
    }
    EXPECT_GT(seen, 0u) << "rank " << missing;
  }
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<Case, Rank>>& test) {
  const auto& [type_and_op, ranks] = test.param;
  return std::string(dtype_name(type_and_op.dtype)) + "_" + std::string(reduce_op_name(type_and_op.op)) + "_" +
         std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(CheckValues, EveryTypeAndOperation,
                         ::testing::Combine(::testing::ValuesIn(every_case()), ::testing::Values(1, 2, 3, 8, 17, 64)),
                         test_name);

TEST(CheckValues, DifferFromRoundToRoundAndFromRankToRank) {
  EXPECT_NE(random_bits({1, 5}, 0), random_bits({2, 5}, 0));
  EXPECT_NE(random_bits({1, 5}, 0), random_bits({1, 5}, 1));
  EXPECT_NE(random_bits({1, 5}, 0), random_bits({1, 6}, 0));
}

TEST(Encode, WritesWhatTheFormatsSpecify) {
  EXPECT_EQ(encode(DType::kFloat16, {-1.5, 0}), 0xbe00u);
  EXPECT_EQ(encode(DType::kBfloat16, {3, 0}), 0x4040u);
  EXPECT_EQ(encode(DType::kFloat8E4m3, {16, 0}), 0x58u);
  EXPECT_EQ(encode(DType::kFloat8E5m2, {-0.5, 0}), 0xb8u);
  EXPECT_EQ(encode(DType::kFloat8E4m3, {0, 0}), 0u);
}

}  // namespace
}  // namespace gimbal::bench
