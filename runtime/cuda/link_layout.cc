#include "runtime/cuda/link_layout.h"

namespace gimbal {
namespace {

using Counter = LinkLayout::Counter;

uint64_t* counter(const LinkLayout& layout, std::byte* region, size_t link, Counter which) {
  return reinterpret_cast<uint64_t*>(region + layout.counter_at(link, which));
}

// The link from one rank to another, but for the position. Each names it by its peer.
device::DeviceLink link_between(const LinkLayout& layout, std::byte* sender, size_t at_sender, std::byte* receiver,
                                size_t at_receiver) {
  device::DeviceLink link = {};
  link.slots = receiver + layout.slots_at(at_receiver);
  link.headers = reinterpret_cast<device::SlotHeader*>(receiver + layout.headers_at(at_receiver));
  link.tail = counter(layout, receiver, at_receiver, Counter::kTail);
  link.head = counter(layout, sender, at_sender, Counter::kHead);
  link.slot_stride = layout.slot_bytes;
  link.slot_count = layout.slot_count;
  return link;
}

}  // namespace

std::vector<device::DeviceLink> make_links(const LinkLayout& layout, Rank rank,
                                           const std::array<std::byte*, device::kMaxNativeRanks>& regions) {
  std::vector<device::DeviceLink> links(2 * layout.links());
  std::byte* const own = regions[static_cast<size_t>(rank)];
  for (Rank peer = 0; peer < layout.nranks; ++peer) {
    if (peer == rank) continue;
    std::byte* const theirs = regions[static_cast<size_t>(peer)];
    for (uint32_t channel = 0; channel < layout.channels; ++channel) {
      const size_t here = layout.link(peer, channel);
      const size_t there = layout.link(rank, channel);
      device::DeviceLink& outgoing = links[here];
      outgoing = link_between(layout, own, here, theirs, there);
      outgoing.position = counter(layout, own, here, Counter::kSenderPosition);
      device::DeviceLink& incoming = links[layout.links() + here];
      incoming = link_between(layout, theirs, there, own, here);
      incoming.position = counter(layout, own, here, Counter::kReceiverPosition);
    }
  }
  return links;
}

}  // namespace gimbal
