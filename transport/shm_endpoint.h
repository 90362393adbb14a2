// An endpoint over shared memory: per channel and direction, a ring of slots from one writer to one reader.
//
// The caller provides the memory, zeroed: one lane for what this side sends and one for what it receives (the peer has them the
// other way round), each lane_bytes() long and aligned to a cache line.
//
// A lane holds per channel a line with the reader's count of released messages, then the slots. A slot begins with its header,
// and the message follows in the same cache line: a message of up to 48 bytes crosses with one line. The header's sequence
// number is written last and says which message the slot holds, so that the reader looks at the slot itself and at no index.
//
// Invariant: 0 <= sent - released <= window. `released` is written by the reader only, slots by the writer only. The peer may
// be hostile: what it wrote is read once and checked before use.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/parking.h"
#include "transport/endpoint.h"

namespace gimbal {

struct ShmEndpointOptions {
  Rank peer = 0;
  Channel channels = 1;
  size_t slot_bytes = 0;
  size_t window = 0;
  LinkCost cost;
};

class ShmEndpoint : public Endpoint {
 public:
  static size_t lane_bytes(Channel channels, size_t slot_bytes, size_t window);

  // The doorbell is the peer's: it is rung after every commit and release.
  ShmEndpoint(const ShmEndpointOptions& options, std::span<std::byte> send_lane, std::span<std::byte> receive_lane,
              ParkingLot& lot, Doorbell& peer_doorbell);

  [[nodiscard]] Rank peer() const override { return options_.peer; }
  [[nodiscard]] const LinkProperties& properties() const override { return properties_; }
  [[nodiscard]] size_t slot_bytes() const override { return options_.slot_bytes; }
  [[nodiscard]] size_t window() const override { return options_.window; }
  [[nodiscard]] Channel channels() const override { return options_.channels; }

  Result<std::optional<std::span<std::byte>>> acquire(Channel channel, size_t bytes) override;
  Status commit(Channel channel, size_t bytes, uint64_t tag) override;
  Result<std::optional<ReceivedMessage>> front(Channel channel) override;
  void release(Channel channel) override;

 private:
  struct SlotHeader {
    std::atomic<uint32_t> sequence;  // of the message, counted from 1 and wrapping; 0: never written
    uint32_t bytes;
    uint64_t tag;
  };
  struct ReleaseLine {
    std::atomic<uint64_t> released;
  };
  // One direction of one channel. Each side keeps its own counts; only released_ comes from the peer.
  struct Lane {
    ReleaseLine* line = nullptr;
    std::byte* slots = nullptr;
    uint64_t count = 0;           // messages sent, or released here
    size_t slot = 0;              // count modulo window
    uint64_t known_released = 0;  // sending: the last value seen
  };
  static size_t slot_stride(size_t slot_bytes);
  static size_t channel_bytes(size_t slot_bytes, size_t window);
  [[nodiscard]] SlotHeader& header(const Lane& lane) const;
  void advance(Lane& lane) const;
  Status fail(const std::string& what);

  const ShmEndpointOptions options_;
  const LinkProperties properties_;
  const size_t stride_;
  ParkingLot& lot_;
  Doorbell& peer_doorbell_;
  std::vector<Lane> sending_;
  std::vector<Lane> receiving_;
  Status error_;
};

}  // namespace gimbal
