#include "gradsync/wire_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace gimbal::gradsync {
namespace {

constexpr gimbal_gradsync_wire_t kWires[] = {GIMBAL_GRADSYNC_WIRE_BFLOAT16, GIMBAL_GRADSYNC_WIRE_FLOAT16,
                                             GIMBAL_GRADSYNC_WIRE_INT8, GIMBAL_GRADSYNC_WIRE_FLOAT8};

Block random_block(unsigned seed, float magnitude) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, magnitude);
  Block block;
  for (float& value : block) value = normal(generator);
  return block;
}

Block there_and_back(gimbal_gradsync_wire_t wire, const Block& values) {
  std::vector<std::byte> bytes(block_bytes(wire));
  encode_block(wire, values, bytes.data());
  Block back;
  decode_block(wire, bytes.data(), back);
  return back;
}

float largest(const Block& values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}

TEST(WireBlocks, ComeBackWithinHalfAStepOfTheirFormat) {
  for (const float magnitude : {1.0F, 1e-6F, 1e4F}) {
    const Block values = random_block(7, magnitude);
    const float most = largest(values);
    const Block bfloat16 = there_and_back(GIMBAL_GRADSYNC_WIRE_BFLOAT16, values);
    const Block half = there_and_back(GIMBAL_GRADSYNC_WIRE_FLOAT16, values);
    const Block int8 = there_and_back(GIMBAL_GRADSYNC_WIRE_INT8, values);
    const Block float8 = there_and_back(GIMBAL_GRADSYNC_WIRE_FLOAT8, values);
    for (size_t i = 0; i < kBlockElements; ++i) {
      const float size = std::abs(values[i]);
      EXPECT_LE(std::abs(bfloat16[i] - values[i]), size * 0x1p-8F) << i;
      EXPECT_LE(std::abs(half[i] - values[i]), std::max(size * 0x1p-11F, 0x1p-25F)) << i;
      EXPECT_LE(std::abs(int8[i] - values[i]), most / 254 * 1.0001F) << i;
      EXPECT_LE(std::abs(float8[i] - values[i]), std::max(size / 16, most / 448 * 0x1p-10F) * 1.0001F) << i;
    }
  }
}

TEST(WireBlocks, RoundHalfToEven) {
  Block values = {};
  values[0] = 1 + 0x1p-8F;    // between two bfloat16: down to the even one
  values[1] = 1 + 0x1.8p-7F;  // up to the even one
  values[2] = 1 + 0x1p-11F;   // between two float16
  values[3] = 0x1.8p-24F;     // between two subnormals of float16
  const Block bfloat16 = there_and_back(GIMBAL_GRADSYNC_WIRE_BFLOAT16, values);
  const Block half = there_and_back(GIMBAL_GRADSYNC_WIRE_FLOAT16, values);
  EXPECT_EQ(bfloat16[0], 1);
  EXPECT_EQ(bfloat16[1], 1 + 0x1p-6F);
  EXPECT_EQ(half[2], 1);
  EXPECT_EQ(half[3], 0x1p-23F);
}

TEST(WireBlocks, HoldEveryValueOfFloat16Exactly) {
  for (uint32_t first = 0; first < 0x10000; first += kBlockElements) {
    std::array<uint16_t, kBlockElements> codes;
    for (uint32_t i = 0; i < kBlockElements; ++i) codes[i] = static_cast<uint16_t>(first + i);
    Block values;
    decode_block(GIMBAL_GRADSYNC_WIRE_FLOAT16, std::as_bytes(std::span(codes)).data(), values);
    std::array<uint16_t, kBlockElements> again;
    encode_block(GIMBAL_GRADSYNC_WIRE_FLOAT16, values, std::as_writable_bytes(std::span(again)).data());
    for (size_t i = 0; i < kBlockElements; ++i) {
      const bool is_nan = (codes[i] & 0x7fff) > 0x7c00;
      if (is_nan) {
        EXPECT_TRUE(std::isnan(values[i])) << codes[i];
      } else {
        EXPECT_EQ(again[i], codes[i]);
      }
    }
  }
}

TEST(WireBlocks, ThatCameBackAreTheSameWhenSentAgain) {
  for (const gimbal_gradsync_wire_t wire : kWires) {
    const Block once = there_and_back(wire, random_block(3, 0.01F));
    const Block twice = there_and_back(wire, once);
    for (size_t i = 0; i < kBlockElements; ++i) EXPECT_NEAR(twice[i], once[i], std::abs(once[i]) * 1e-6F) << wire;
  }
}

TEST(WireBlocks, ShowThatAValueWasNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Block values = random_block(5, 1);
    values[77] = bad;
    for (const gimbal_gradsync_wire_t wire : kWires) {
      const Block back = there_and_back(wire, values);
      EXPECT_FALSE(std::isfinite(back[77])) << wire;
      if (!has_error_feedback(wire)) continue;
      EXPECT_THAT(back, ::testing::Each(::testing::IsNan())) << wire;
    }
  }
}

TEST(WireBlocks, AreZeroWhereTheScaleWouldHaveNoReciprocal) {
  Block values = {};
  values[3] = 1e-40F;
  for (const gimbal_gradsync_wire_t wire : {GIMBAL_GRADSYNC_WIRE_INT8, GIMBAL_GRADSYNC_WIRE_FLOAT8}) {
    EXPECT_THAT(there_and_back(wire, values), ::testing::Each(0.0F)) << wire;
  }
}

TEST(WireBlocks, TakeAQuarterOfFloat32With8Bits) {
  EXPECT_EQ(block_bytes(GIMBAL_GRADSYNC_WIRE_BFLOAT16), kBlockElements * sizeof(float) / 2);
  EXPECT_LT(static_cast<double>(block_bytes(GIMBAL_GRADSYNC_WIRE_INT8)), 0.26 * kBlockElements * sizeof(float));
}

}  // namespace
}  // namespace gimbal::gradsync
