// What stands on a data stream: chunks of messages, each behind a header that says where it belongs, so that a message may
// travel over several streams and its chunks may arrive in any order.
//
// Fields are little-endian. Headers come from the network: nothing in one is used before check_chunk() has found no fault.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "transport/endpoint.h"

namespace gimbal {

enum class ChunkKind : uint8_t { kData = 1, kCredit = 2 };

struct ChunkHeader {
  uint16_t magic = kMagic;
  ChunkKind kind = ChunkKind::kData;
  Channel channel = 0;
  uint32_t sequence = 0;  // of the message on its channel, from 0; wraps
  uint64_t tag = 0;
  uint32_t message_bytes = 0;
  uint32_t offset = 0;    // of the chunk in the message: a multiple of ChunkLimits::chunk_bytes
  uint32_t bytes = 0;     // of the chunk, which follows
  uint32_t released = 0;  // how many messages of this channel the sender of this header has released; wraps

  static constexpr uint16_t kMagic = 0x4347;  // "GC"
};
inline constexpr size_t kChunkHeaderBytes = 32;
static_assert(sizeof(ChunkHeader) == kChunkHeaderBytes && std::endian::native == std::endian::little);

inline ChunkHeader read_chunk_header(std::span<const std::byte, kChunkHeaderBytes> bytes) {
  ChunkHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

// What both sides of a link agree on.
struct ChunkLimits {
  Channel channels = 1;
  size_t slot_bytes = 0;
  size_t chunk_bytes = 0;

  [[nodiscard]] size_t chunks_of(size_t message_bytes) const {
    return message_bytes == 0 ? 1 : (message_bytes + chunk_bytes - 1) / chunk_bytes;
  }
  [[nodiscard]] size_t bytes_at(size_t offset, size_t message_bytes) const {
    return offset < message_bytes ? std::min(chunk_bytes, message_bytes - offset) : 0;
  }
};

// What is wrong with a header, as the end of the sentence "it ..."; empty for nothing.
std::string check_chunk(const ChunkHeader& header, const ChunkLimits& limits);

}  // namespace gimbal
