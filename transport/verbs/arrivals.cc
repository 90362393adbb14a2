#include "transport/verbs/arrivals.h"

#include <bit>

namespace gimbal {

std::string VerbsArrivals::add(const VerbsImmediate& notice, size_t bytes, const SlotLayout& layout, const SlotHeader& header) {
  const int32_t ahead = notice.ahead_of(released_);
  const uint32_t sequence = full(notice);
  const auto name = [&] { return "message " + std::to_string(sequence) + " of channel " + std::to_string(notice.channel); };
  if (ahead >= static_cast<int32_t>(window_.size())) {
    return "sent " + name() + " while only " + std::to_string(window_.size()) + " from " + std::to_string(released_) +
           " on have room";
  }
  Message& message = at(sequence);
  const uint64_t bit = uint64_t{1} << notice.chunk;
  if (ahead < 0 || (message.chunks & bit) != 0)
    return "sent chunk " + std::to_string(notice.chunk) + " of " + name() + " twice";
  message.chunks |= bit;
  message.carried += bytes;
  if ((message.chunks & 1) == 0) return "";
  if (header.sequence != sequence) return "sent message " + std::to_string(header.sequence) + " as " + name();
  if (header.bytes > layout.slot_bytes) {
    return "sent a message of " + std::to_string(header.bytes) + " bytes in a slot of " + std::to_string(layout.slot_bytes);
  }
  const size_t chunks = layout.chunks_of(header.bytes);
  if (static_cast<size_t>(std::popcount(message.chunks)) < chunks) return "";
  if (std::bit_width(message.chunks) != chunks || message.carried != header.bytes + sizeof(SlotHeader)) {
    return "sent " + std::to_string(message.carried) + " bytes in chunks of " + name() + ", which has " +
           std::to_string(header.bytes);
  }
  message.complete = true;
  return "";
}

}  // namespace gimbal
