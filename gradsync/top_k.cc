// The largest elements of a tensor as a codec of the C API; the others wait for a later step.
//
// A message is the indices, ascending, then the values. Elements are told apart by the upper 16 bits of their magnitude, which
// two passes and a table find; among equals the first are taken.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/entry.h"
#include "base/status.h"
#include "gimbal/gradsync.h"

namespace gimbal::gradsync {
namespace {

// 0 to 0x7fff, larger for a larger magnitude; NaN is the largest, and so is sent.
uint32_t key_of(float value) { return (std::bit_cast<uint32_t>(value) & 0x7fffffff) >> 16; }
constexpr size_t kKeys = 0x8000;

struct Selection {
  size_t count;
  size_t taken;
  int32_t ranks;
  std::vector<uint32_t> of_key;  // how many elements

  // The least key of which elements are taken, and how many of it.
  std::pair<uint32_t, size_t> find_border(std::span<const float> values) {
    of_key.assign(kKeys, 0);
    for (const float value : values) ++of_key[key_of(value)];
    size_t left = taken;
    uint32_t key = kKeys - 1;
    for (; of_key[key] < left; --key) left -= of_key[key];
    return {key, left};
  }
};

void* open(const gimbal_codec_t* codec, const gimbal_codec_tensor_t* tensor) {
  const size_t count = tensor->rows * tensor->columns;
  const auto wanted = static_cast<size_t>(static_cast<double>(count) * codec->setting);
  const size_t taken = std::max<size_t>(wanted, 1);
  // All ranks' indices and values must be fewer bytes than an all-reduce moves; an index has 32 bits.
  const size_t bytes = taken * (sizeof(uint32_t) + sizeof(float)) * static_cast<size_t>(tensor->ranks);
  if (bytes >= 2 * count * sizeof(float) || count > UINT32_MAX) return nullptr;
  return new Selection{count, taken, tensor->ranks, {}};
}

void close(void* state) { delete static_cast<Selection*>(state); }

size_t message_bytes(const void* state, int32_t /*round*/) {
  return static_cast<const Selection*>(state)->taken * (sizeof(uint32_t) + sizeof(float));
}

void encode(void* state, int32_t /*round*/, float* values, void* message) {
  auto& selection = *static_cast<Selection*>(state);
  const std::span all(values, selection.count);
  auto [border, left] = selection.find_border(all);
  auto* const indices = static_cast<uint32_t*>(message);
  auto* const sent = reinterpret_cast<float*>(indices + selection.taken);
  size_t found = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const uint32_t key = key_of(all[i]);
    if (key < border || (key == border && left == 0)) continue;
    if (key == border) --left;
    indices[found] = static_cast<uint32_t>(i);
    sent[found++] = all[i];
    all[i] = 0;
  }
}

void decode(void* state, int32_t /*round*/, const void* messages, size_t stride, float* result) {
  const auto& selection = *static_cast<Selection*>(state);
  std::fill_n(result, selection.count, 0.0F);
  for (int32_t rank = 0; rank < selection.ranks; ++rank) {
    const auto* const message = static_cast<const std::byte*>(messages) + static_cast<size_t>(rank) * stride;
    const auto* const indices = reinterpret_cast<const uint32_t*>(message);
    const auto* const values = reinterpret_cast<const float*>(indices + selection.taken);
    for (size_t i = 0; i < selection.taken; ++i) result[indices[i]] += values[i];
  }
}

}  // namespace
}  // namespace gimbal::gradsync

gimbal_status_t gimbal_codec_top_k(double ratio, gimbal_codec_t* codec) {
  namespace gradsync = gimbal::gradsync;
  return gimbal::enter([&]() -> gimbal::Status {
    if (codec == nullptr) return {gimbal::Code::kInvalidArgument, "codec is NULL"};
    if (!(ratio > 0 && ratio < 1)) {
      return {gimbal::Code::kInvalidArgument, "ratio is " + std::to_string(ratio) + "; allowed: above 0 and below 1"};
    }
    *codec = {sizeof *codec,
              "",
              ratio,
              nullptr,
              1,
              GIMBAL_CODEC_GATHER,
              gradsync::open,
              gradsync::close,
              gradsync::message_bytes,
              gradsync::encode,
              gradsync::decode,
              nullptr};
    std::snprintf(codec->name, sizeof codec->name, "top_k ratio %.9g", ratio);
    return {};
  });
}
