// Conversions between float32 and the small floating types, through reductions of one operand.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/reduce.h"
#include "tests/unit/kernels/reduce_case.h"
#include "tests/unit/kernels/reference.h"

namespace gimbal::test {
namespace {

using Conversion = std::function<std::vector<uint64_t>(const std::vector<float>& values)>;

// All values of the type, the midpoint between each and the next, and the float32 next to both on either side: where rounding
// changes. Then what lies beyond the greatest value, infinity and NaN. Each with both signs.
std::vector<float> values_where_rounding_changes(DType dtype) {
  const FloatFormat format = float_format(dtype);
  const uint64_t positive = uint64_t{1} << (format.exponent_bits + format.mantissa_bits);
  std::vector<double> values = {65504, 65519.99, 65520, 448, 463.9, 464, 480, 57344, 61439, 61440, 61441, 1e30, INFINITY, NAN};
  for (uint64_t bits = 0; bits + 1 < positive; ++bits) {
    const double value = decode_float(format, bits), next = decode_float(format, bits + 1);
    if (std::isfinite(value)) values.push_back(value);
    if (std::isfinite(value) && std::isfinite(next)) values.push_back((value + next) / 2);
  }
  std::vector<float> result;
  for (const double value : values) {
    const float middle = static_cast<float>(value);
    for (const float near : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, INFINITY)}) {
      result.push_back(near);
      result.push_back(-near);
    }
  }
  return result;
}

// The values for which a conversion does not give the nearest value of the type, ties to even.
std::vector<float> wrongly_rounded(DType dtype, const Conversion& convert) {
  const std::vector<float> values = values_where_rounding_changes(dtype);
  const std::vector<uint64_t> bits = convert(values);
  std::vector<float> wrong;
  for (size_t i = 0; i < values.size(); ++i) {
    if (bits[i] != encode_float(float_format(dtype), values[i])) wrong.push_back(values[i]);
  }
  return wrong;
}

// float32 partials to elements: the conversion at the end of every sum.
Conversion conversion_of(ReduceFunction function, DType dtype) {
  return [function, dtype](const std::vector<float>& values) {
    const size_t size = dtype_size(dtype);
    std::vector<unsigned char> elements(values.size() * size);
    const std::array<ReduceSource, 1> sources = {{{values.data(), Form::kPartial, 1}}};
    const std::array<void*, 1> destinations = {elements.data()};
    function({.sources = sources, .destinations = destinations, .count = values.size()});
    std::vector<uint64_t> bits(values.size(), 0);
    for (size_t i = 0; i < bits.size(); ++i) std::memcpy(&bits[i], elements.data() + i * size, size);
    return bits;
  };
}

class SmallFloat : public testing::TestWithParam<DType> {
 protected:
  std::vector<ReduceFunction> functions_ = find_reduce_of_every_instruction_set(GetParam(), ReduceOp::kSum);
};

TEST_P(SmallFloat, RoundsToNearestEvenEverywhere) {
  for (const ReduceFunction function : functions_) {
    EXPECT_EQ(wrongly_rounded(GetParam(), conversion_of(function, GetParam())), std::vector<float>());
  }
}

TEST_P(SmallFloat, EveryPatternBecomesItsFloat32) {
  const size_t size = dtype_size(GetParam());
  const size_t pattern_count = size_t{1} << (8 * size);
  std::vector<unsigned char> patterns(pattern_count * size);
  for (size_t i = 0; i < pattern_count; ++i) std::memcpy(patterns.data() + i * size, &i, size);
  const std::array<ReduceSource, 1> sources = {{{patterns.data(), Form::kElement, 1}}};
  for (const ReduceFunction function : functions_) {
    std::vector<float> values(pattern_count);
    const std::array<void*, 1> destinations = {values.data()};
    function({.sources = sources, .destinations = destinations, .destination_form = Form::kPartial, .count = pattern_count});
    for (size_t i = 0; i < pattern_count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, &values[i], sizeof(bits));
      ASSERT_EQ(bits, encode_float(float_format(DType::kFloat32), decode_float(float_format(GetParam()), i)))
          << "pattern " << i;
    }
  }
}

TEST_P(SmallFloat, EveryPatternSurvivesTheWayToFloat32AndBack) {
  const size_t size = dtype_size(GetParam());
  const size_t pattern_count = size_t{1} << (8 * size);
  std::vector<unsigned char> patterns(pattern_count * size), back(patterns.size());
  for (size_t i = 0; i < pattern_count; ++i) std::memcpy(patterns.data() + i * size, &i, size);
  const std::array<ReduceSource, 1> sources = {{{patterns.data(), Form::kElement, 1}}};
  const std::array<void*, 1> destinations = {back.data()};
  for (const ReduceFunction function : functions_) {
    function({.sources = sources, .destinations = destinations, .count = pattern_count});
    for (size_t i = 0; i < pattern_count; ++i) {
      const bool is_nan = std::isnan(decode_float(float_format(GetParam()), i));
      uint64_t bits = 0;
      std::memcpy(&bits, back.data() + i * size, size);
      ASSERT_EQ(bits, is_nan ? encode_float(float_format(GetParam()), NAN) : i);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SmallFloat,
                         testing::Values(DType::kFloat16, DType::kBfloat16, DType::kFloat8E4m3, DType::kFloat8E5m2),
                         [](const testing::TestParamInfo<DType>& parameter) {
                           return std::string(dtype_name(parameter.param));
                         });

TEST(WronglyRounded, CatchesAConversionThatTruncates) {
  const Conversion truncate = [](const std::vector<float>& values) {
    std::vector<uint64_t> result;
    for (const float value : values) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      result.push_back(std::isnan(value) ? 0x7FC0 : bits >> 16);
    }
    return result;
  };
  EXPECT_FALSE(wrongly_rounded(DType::kBfloat16, truncate).empty());
}

TEST(WronglyRounded, CatchesAConversionThatRoundsTiesAwayFromZero) {
  const Conversion away = [](const std::vector<float>& values) {
    std::vector<uint64_t> result;
    for (const float value : values) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      result.push_back(std::isnan(value) ? 0x7FC0 : (bits + 0x8000) >> 16);
    }
    return result;
  };
  EXPECT_FALSE(wrongly_rounded(DType::kBfloat16, away).empty());
}

}  // namespace
}  // namespace gimbal::test
