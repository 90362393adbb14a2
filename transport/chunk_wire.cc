#include "transport/chunk_wire.h"

namespace gimbal {

std::string check_chunk(const ChunkHeader& header, const ChunkLimits& limits) {
  if (header.magic != ChunkHeader::kMagic || (header.kind != ChunkKind::kData && header.kind != ChunkKind::kCredit)) {
    return "sent bytes that are no chunk";
  }
  if (header.channel >= limits.channels) {
    return "sent a chunk on channel " + std::to_string(header.channel) + " of " + std::to_string(limits.channels);
  }
  if (header.kind == ChunkKind::kCredit) {
    return header.bytes == 0 ? "" : "sent a credit with " + std::to_string(header.bytes) + " bytes";
  }
  if (header.message_bytes > limits.slot_bytes) {
    return "sent a message of " + std::to_string(header.message_bytes) + " bytes in a slot of " +
           std::to_string(limits.slot_bytes);
  }
  const bool in_message = header.offset < header.message_bytes || (header.offset == 0 && header.message_bytes == 0);
  if (!in_message || header.offset % limits.chunk_bytes != 0 ||
      header.bytes != limits.bytes_at(header.offset, header.message_bytes)) {
    return "sent a chunk of " + std::to_string(header.bytes) + " bytes at " + std::to_string(header.offset) +
           " of a message of " + std::to_string(header.message_bytes);
  }
  return "";
}

}  // namespace gimbal
