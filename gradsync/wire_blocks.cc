#include "gradsync/wire_blocks.h"

#include <bit>
#include <cstring>
#include <limits>

namespace gimbal::gradsync {
namespace {

constexpr uint32_t kInfinity = 0x7f800000;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

// A binary floating format with kMantissa bits of fraction and an exponent of bias kBias, in the low bits of a code.
template <uint32_t kMantissa, uint32_t kBias>
struct SmallFloat {
  static constexpr uint32_t kShift = 23 - kMantissa;
  // Adding this float leaves a subnormal's fraction, rounded, in the lowest bits of the sum.
  static constexpr uint32_t kSubnormal = (127 - kBias + kShift + 1) << 23;
  static constexpr uint32_t kLeastNormal = (127 - kBias + 1) << 23;

  // Of a finite magnitude that the format has room for.
  static uint32_t encode_magnitude(uint32_t magnitude) {
    const uint32_t subnormal = bits_of(float_of(magnitude) + float_of(kSubnormal)) - kSubnormal;
    const uint32_t odd = (magnitude >> kShift) & 1;
    const uint32_t normal = (magnitude - ((127 - kBias) << 23) + ((1U << (kShift - 1)) - 1) + odd) >> kShift;
    return magnitude < kLeastNormal ? subnormal : normal;
  }
  static float decode_magnitude(uint32_t code) {
    const uint32_t moved = code << kShift;
    const float normal = float_of(moved + ((127 - kBias) << 23));
    const float subnormal = float_of(moved + kLeastNormal) - float_of(kLeastNormal);
    return (moved & (0xffU << 23)) == 0 ? subnormal : normal;
  }
};
using Half = SmallFloat<10, 15>;
using Float8 = SmallFloat<3, 7>;

uint16_t to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffff) > kInfinity ? (bits >> 16) | 0x40 : rounded);
}

uint16_t to_half(float value) {
  constexpr uint32_t kOverflow = 0x47800000;  // 65536; what rounds up to it becomes infinity by itself
  const uint32_t magnitude = bits_of(value) & 0x7fffffff;
  const uint32_t sign = (bits_of(value) >> 16) & 0x8000;
  const uint32_t finite = Half::encode_magnitude(magnitude);
  const uint32_t special = magnitude > kInfinity ? 0x7e00 : 0x7c00;
  return static_cast<uint16_t>(sign | (magnitude >= kOverflow ? special : finite));
}

float from_half(uint16_t code) {
  const uint32_t magnitude = code & 0x7fff;
  const float finite = Half::decode_magnitude(magnitude);
  const uint32_t bits = magnitude >= 0x7c00 ? kInfinity | (magnitude & 0x3ff) << 13 : bits_of(finite);
  return float_of(bits | static_cast<uint32_t>(code & 0x8000) << 16);
}

// The scale of a block whose codes reach up to `most`: NaN when a value is not finite, 0 where its reciprocal would overflow.
float scale_of(const Block& values, float most) {
  constexpr float kLeast = 0x1p-116F;
  uint32_t largest = 0;
  for (const float value : values) {
    const uint32_t magnitude = bits_of(value) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  if (largest >= kInfinity) return kNan;
  return float_of(largest) < kLeast ? 0.0F : float_of(largest) / most;
}

constexpr float kMostInt8 = 127;
constexpr float kMostFloat8 = 448;

void encode_int8(const Block& values, std::byte* bytes) {
  const float scale = scale_of(values, kMostInt8);
  std::memcpy(bytes, &scale, sizeof scale);
  const float inverse = scale > 0 ? 1 / scale : 0.0F;
  std::array<uint8_t, kBlockElements> codes;
  // The sum's lowest bits are the product rounded to an integer.
  constexpr float kRound = 0x1.8p23F;
  for (size_t i = 0; i < kBlockElements; ++i) codes[i] = static_cast<uint8_t>(bits_of(values[i] * inverse + kRound));
  std::memcpy(bytes + sizeof scale, codes.data(), codes.size());
}

void decode_int8(const std::byte* bytes, Block& values) {
  float scale = 0;
  std::memcpy(&scale, bytes, sizeof scale);
  std::array<int8_t, kBlockElements> codes;
  std::memcpy(codes.data(), bytes + sizeof scale, codes.size());
  for (size_t i = 0; i < kBlockElements; ++i) values[i] = static_cast<float>(codes[i]) * scale;
}

void encode_float8(const Block& values, std::byte* bytes) {
  const float scale = scale_of(values, kMostFloat8);
  std::memcpy(bytes, &scale, sizeof scale);
  const float inverse = scale > 0 ? 1 / scale : 0.0F;
  std::array<uint8_t, kBlockElements> codes;
  for (size_t i = 0; i < kBlockElements; ++i) {
    const uint32_t bits = bits_of(values[i] * inverse);
    codes[i] = static_cast<uint8_t>((bits >> 24 & 0x80) | Float8::encode_magnitude(bits & 0x7fffffff));
  }
  std::memcpy(bytes + sizeof scale, codes.data(), codes.size());
}

void decode_float8(const std::byte* bytes, Block& values) {
  float scale = 0;
  std::memcpy(&scale, bytes, sizeof scale);
  std::array<uint8_t, kBlockElements> codes;
  std::memcpy(codes.data(), bytes + sizeof scale, codes.size());
  for (size_t i = 0; i < kBlockElements; ++i) {
    const uint32_t code = codes[i];
    values[i] = float_of(bits_of(Float8::decode_magnitude(code & 0x7f)) | (code & 0x80) << 24) * scale;
  }
}

template <uint16_t (*kEncode)(float)>
void encode_16(const Block& values, std::byte* bytes) {
  std::array<uint16_t, kBlockElements> codes;
  for (size_t i = 0; i < kBlockElements; ++i) codes[i] = kEncode(values[i]);
  std::memcpy(bytes, codes.data(), sizeof codes);
}

template <float (*kDecode)(uint16_t)>
void decode_16(const std::byte* bytes, Block& values) {
  std::array<uint16_t, kBlockElements> codes;
  std::memcpy(codes.data(), bytes, sizeof codes);
  for (size_t i = 0; i < kBlockElements; ++i) values[i] = kDecode(codes[i]);
}

float from_bfloat16(uint16_t code) { return float_of(static_cast<uint32_t>(code) << 16); }

}  // namespace

bool is_compressed_by(gimbal_gradsync_wire_t wire, DType dtype) {
  if (wire == GIMBAL_GRADSYNC_WIRE_AS_IS) return false;
  if (dtype == DType::kFloat32) return true;
  return (dtype == DType::kBfloat16 || dtype == DType::kFloat16) && has_error_feedback(wire);
}

bool has_error_feedback(gimbal_gradsync_wire_t wire) {
  return wire == GIMBAL_GRADSYNC_WIRE_INT8 || wire == GIMBAL_GRADSYNC_WIRE_FLOAT8;
}

size_t block_bytes(gimbal_gradsync_wire_t wire) {
  return has_error_feedback(wire) ? sizeof(float) + kBlockElements : kBlockElements * sizeof(uint16_t);
}

void encode_block(gimbal_gradsync_wire_t wire, const Block& values, std::byte* bytes) {
  switch (wire) {
    case GIMBAL_GRADSYNC_WIRE_AS_IS:
      return;
    case GIMBAL_GRADSYNC_WIRE_BFLOAT16:
      return encode_16<to_bfloat16>(values, bytes);
    case GIMBAL_GRADSYNC_WIRE_FLOAT16:
      return encode_16<to_half>(values, bytes);
    case GIMBAL_GRADSYNC_WIRE_INT8:
      return encode_int8(values, bytes);
    case GIMBAL_GRADSYNC_WIRE_FLOAT8:
      return encode_float8(values, bytes);
  }
}

void decode_block(gimbal_gradsync_wire_t wire, const std::byte* bytes, Block& values) {
  switch (wire) {
    case GIMBAL_GRADSYNC_WIRE_AS_IS:
      return;
    case GIMBAL_GRADSYNC_WIRE_BFLOAT16:
      return decode_16<from_bfloat16>(bytes, values);
    case GIMBAL_GRADSYNC_WIRE_FLOAT16:
      return decode_16<from_half>(bytes, values);
    case GIMBAL_GRADSYNC_WIRE_INT8:
      return decode_int8(bytes, values);
    case GIMBAL_GRADSYNC_WIRE_FLOAT8:
      return decode_float8(bytes, values);
  }
}

void load_block(DType dtype, const std::byte* memory, Block& values) {
  if (dtype == DType::kBfloat16) return decode_16<from_bfloat16>(memory, values);
  if (dtype == DType::kFloat16) return decode_16<from_half>(memory, values);
  std::memcpy(values.data(), memory, sizeof values);
}

void store_block(DType dtype, const Block& values, std::byte* memory) {
  if (dtype == DType::kBfloat16) return encode_16<to_bfloat16>(values, memory);
  if (dtype == DType::kFloat16) return encode_16<to_half>(values, memory);
  std::memcpy(memory, values.data(), sizeof values);
}

}  // namespace gimbal::gradsync
