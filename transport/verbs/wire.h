// What two verbs endpoints tell each other: the 32 bits of immediate data, and the header of a message in its slot.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/endpoint.h"

namespace gimbal {

enum class VerbsNotice : uint8_t {
  kData,    // a chunk has arrived: channel, chunk, sequence of the message
  kCredit,  // the receiver's count of released messages: channel, sequence
  kHello,   // the queue pair works; nothing else
  kDead,  // my side of this queue pair is in error and takes nothing any more: `sequence` is its index, and the request carries
          // a report of what has arrived
};

// The immediate data of one work request, in host order. Sequences are counted modulo 2^18: who reads one knows it to within a
// window.
struct VerbsImmediate {
  static constexpr uint32_t kSequenceBits = 18;
  static constexpr uint32_t kSequenceMask = (uint32_t{1} << kSequenceBits) - 1;
  static constexpr size_t kMaxChannels = 32;
  static constexpr size_t kMaxChunks = 64;
  // Half of what can be told apart: the other half is the past.
  static constexpr size_t kMaxWindow = size_t{1} << (kSequenceBits - 1);

  VerbsNotice notice = VerbsNotice::kData;
  Channel channel = 0;
  uint8_t chunk = 0;
  uint32_t sequence = 0;

  [[nodiscard]] uint32_t pack() const {
    return static_cast<uint32_t>(notice) << 29 | uint32_t{channel} << 24 | uint32_t{chunk} << kSequenceBits |
           (sequence & kSequenceMask);
  }
  static VerbsImmediate unpack(uint32_t bits) {
    return {.notice = static_cast<VerbsNotice>(bits >> 29),
            .channel = static_cast<Channel>(bits >> 24 & (kMaxChannels - 1)),
            .chunk = static_cast<uint8_t>(bits >> kSequenceBits & (kMaxChunks - 1)),
            .sequence = bits & kSequenceMask};
  }
  // How far `sequence` is ahead of a full one; behind it, a negative number.
  [[nodiscard]] int32_t ahead_of(uint32_t full) const {
    constexpr uint32_t kUnused = 32 - kSequenceBits;
    return static_cast<int32_t>((sequence - full) << kUnused) >> kUnused;
  }
};

// Lies right before the message's bytes, so that one request carries both.
struct SlotHeader {
  uint64_t tag = 0;
  uint32_t bytes = 0;     // of the message
  uint32_t sequence = 0;  // in full
  uint32_t released = 0;  // credits for the other direction of the channel
  uint32_t reserved = 0;
};
static_assert(sizeof(SlotHeader) == 24);

// Places and chunks of an endpoint's messages, equal on both sides. A slot is a cache line that ends with the header, then the
// message: its bytes begin on a line.
struct SlotLayout {
  static constexpr size_t kLineBytes = 64;
  // Two chunks of half the size would take two doorbells and completions for what one does as fast.
  static constexpr size_t kLeastChunkBytes = size_t{64} << 10;

  Channel channels = 1;
  size_t slot_bytes = 0;
  size_t window = 0;

  [[nodiscard]] size_t slots() const { return channels * window; }
  [[nodiscard]] size_t stride() const { return kLineBytes + (slot_bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }
  // Of one direction.
  [[nodiscard]] size_t bytes() const { return slots() * stride(); }
  [[nodiscard]] size_t slot(Channel channel, uint32_t sequence) const { return channel * window + sequence % window; }
  [[nodiscard]] size_t payload_at(size_t slot) const { return slot * stride() + kLineBytes; }
  [[nodiscard]] size_t header_at(size_t slot) const { return payload_at(slot) - sizeof(SlotHeader); }

  [[nodiscard]] size_t chunk_bytes() const {
    const size_t even = (slot_bytes + VerbsImmediate::kMaxChunks - 1) / VerbsImmediate::kMaxChunks;
    return even > kLeastChunkBytes ? even : kLeastChunkBytes;
  }
  [[nodiscard]] size_t chunks_of(size_t message_bytes) const {
    return message_bytes == 0 ? 1 : (message_bytes + chunk_bytes() - 1) / chunk_bytes();
  }
  [[nodiscard]] size_t most_chunks() const { return chunks_of(slot_bytes); }
  // What the request of a chunk carries: its part of the message, the first one the header too.
  struct Piece {
    size_t at = 0;  // in the area of the slots
    size_t bytes = 0;
  };
  [[nodiscard]] Piece piece(size_t slot, size_t chunk, size_t message_bytes) const {
    const size_t begin = chunk * chunk_bytes();
    const size_t left = message_bytes - begin;
    const size_t bytes = left < chunk_bytes() ? left : chunk_bytes();
    if (chunk == 0) return {header_at(slot), sizeof(SlotHeader) + bytes};
    return {payload_at(slot) + begin, bytes};
  }
};

// What a side that has lost a queue pair has, so that its peer sends the rest of what went that way over the others: for every
// channel the released messages, then for every place of the window the chunks that are there.
struct ReportLayout {
  Channel channels = 1;
  size_t window = 0;

  [[nodiscard]] size_t words() const { return channels * (1 + window); }
  [[nodiscard]] size_t bytes() const { return words() * sizeof(uint64_t); }
  [[nodiscard]] size_t released_at(Channel channel) const { return channel * (1 + window); }
  [[nodiscard]] size_t chunks_at(Channel channel, size_t place) const { return released_at(channel) + 1 + place; }
};

}  // namespace gimbal
