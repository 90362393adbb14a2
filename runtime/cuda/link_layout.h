// Where the links between the ranks' interpreters lie: each rank has a region of device memory with its end of the links with
// every peer on every channel, laid out alike on all ranks.
//
// Of a link, the receiver's region has the slots, their headers and the tail, the sender's the head; each has its own position
// (kernels/cuda/shared.h). A region begins as zeros.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/types.h"
#include "kernels/cuda/shared.h"

namespace gimbal {

struct LinkLayout {
  Rank nranks = 1;
  uint32_t channels = 1;
  uint32_t slot_count = 1;
  size_t slot_bytes = 0;  // a multiple of 16

  [[nodiscard]] size_t links() const { return static_cast<size_t>(nranks) * channels; }
  [[nodiscard]] size_t link(Rank peer, uint32_t channel) const { return static_cast<size_t>(peer) * channels + channel; }

  enum class Counter : uint8_t { kTail, kHead, kSenderPosition, kReceiverPosition };
  static constexpr size_t kCounters = 4;
  // A line each: two devices look at them.
  static constexpr size_t kCounterStride = 128;

  // Offsets in the region of the rank whose end it is.
  [[nodiscard]] size_t slots_at(size_t link) const { return link * slot_count * slot_bytes; }
  [[nodiscard]] size_t headers_at(size_t link) const {
    return slots_at(links()) + link * slot_count * sizeof(device::SlotHeader);
  }
  [[nodiscard]] size_t counter_at(size_t link, Counter which) const {
    return headers_at(links()) + (link * kCounters + static_cast<size_t>(which)) * kCounterStride;
  }
  // The tables of this rank's links, outgoing and then incoming, which only it reads.
  [[nodiscard]] size_t tables_at() const { return counter_at(links(), Counter::kTail); }
  [[nodiscard]] size_t region_bytes() const { return tables_at() + 2 * links() * sizeof(device::DeviceLink); }
};

// By peer, then by channel; of outgoing links, then of incoming ones. regions: as this rank reaches them.
std::vector<device::DeviceLink> make_links(const LinkLayout& layout, Rank rank,
                                           const std::array<std::byte*, device::kMaxNativeRanks>& regions);

}  // namespace gimbal
