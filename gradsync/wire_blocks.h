// Blocks of gradients as they travel: 256 floats in fewer bits, and back.
//
//   bfloat16, float16   each value rounded to nearest, ties to even
//   int8                a float scale (the largest magnitude / 127), then 256 integers
//   float8              a float scale (the largest magnitude / 448), then 256 values of e4m3
//
// A block with a value that is not finite comes back as NaN throughout where it has a scale, so that it is noticed. The loops
// have a fixed length and no branches: the compiler makes vectors of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"
#include "gimbal/gradsync.h"

namespace gimbal::gradsync {

// 4 bytes of scale on 256 are 1.6 %, and 256 elements are a row of a small layer.
inline constexpr size_t kBlockElements = 256;
using Block = std::array<float, kBlockElements>;

// Whether gradients of this type become smaller.
bool is_compressed_by(gimbal_gradsync_wire_t wire, DType dtype);
// Whether what rounding loses is large enough to be carried to the next step.
bool has_error_feedback(gimbal_gradsync_wire_t wire);
// Of a block; wire is not GIMBAL_GRADSYNC_WIRE_AS_IS.
size_t block_bytes(gimbal_gradsync_wire_t wire);

void encode_block(gimbal_gradsync_wire_t wire, const Block& values, std::byte* bytes);
void decode_block(gimbal_gradsync_wire_t wire, const std::byte* bytes, Block& values);

// Elements of float32, bfloat16 or float16 as floats, and back with one rounding.
void load_block(DType dtype, const std::byte* memory, Block& values);
void store_block(DType dtype, const Block& values, std::byte* memory);

}  // namespace gimbal::gradsync
