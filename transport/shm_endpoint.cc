#include "transport/shm_endpoint.h"

#include <string>

namespace gimbal {
namespace {

constexpr size_t kCacheLineBytes = 64;
// Two lines: the prefetcher of x86 fetches lines in pairs, and the first slot must not come with the reader's count.
constexpr size_t kReleaseBytes = 2 * kCacheLineBytes;

}  // namespace

size_t ShmEndpoint::slot_stride(size_t slot_bytes) {
  static_assert(sizeof(SlotHeader) == 16 && std::atomic<uint64_t>::is_always_lock_free);
  return (sizeof(SlotHeader) + slot_bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

size_t ShmEndpoint::channel_bytes(size_t slot_bytes, size_t window) { return kReleaseBytes + window * slot_stride(slot_bytes); }

size_t ShmEndpoint::lane_bytes(Channel channels, size_t slot_bytes, size_t window) {
  return channels * channel_bytes(slot_bytes, window);
}

ShmEndpoint::ShmEndpoint(const ShmEndpointOptions& options, std::span<std::byte> send_lane, std::span<std::byte> receive_lane,
                         ParkingLot& lot, Doorbell& peer_doorbell)
    : options_(options),
      properties_{.cost = options.cost, .shares_memory = true},
      stride_(slot_stride(options.slot_bytes)),
      lot_(lot),
      peer_doorbell_(peer_doorbell) {
  const size_t bytes = channel_bytes(options.slot_bytes, options.window);
  GIMBAL_DCHECK(options.window > 0 && options.slot_bytes <= UINT32_MAX);
  GIMBAL_DCHECK(send_lane.size() >= options.channels * bytes && receive_lane.size() >= options.channels * bytes);
  GIMBAL_DCHECK(reinterpret_cast<uintptr_t>(send_lane.data()) % kCacheLineBytes == 0);
  GIMBAL_DCHECK(reinterpret_cast<uintptr_t>(receive_lane.data()) % kCacheLineBytes == 0);
  const auto lane_at = [bytes](std::span<std::byte> memory, size_t channel) {
    std::byte* begin = memory.data() + channel * bytes;
    return Lane{.line = reinterpret_cast<ReleaseLine*>(begin), .slots = begin + kReleaseBytes};
  };
  for (size_t channel = 0; channel < options.channels; ++channel) {
    sending_.push_back(lane_at(send_lane, channel));
    receiving_.push_back(lane_at(receive_lane, channel));
  }
}

ShmEndpoint::SlotHeader& ShmEndpoint::header(const Lane& lane) const {
  return *reinterpret_cast<SlotHeader*>(lane.slots + lane.slot * stride_);
}

void ShmEndpoint::advance(Lane& lane) const {
  ++lane.count;
  if (++lane.slot == options_.window) lane.slot = 0;
}

Result<std::optional<std::span<std::byte>>> ShmEndpoint::acquire(Channel channel, [[maybe_unused]] size_t bytes) {
  if (!error_.ok()) [[unlikely]]
    return error_;
  GIMBAL_DCHECK(channel < options_.channels && bytes <= options_.slot_bytes);
  Lane& lane = sending_[channel];
  if (lane.count - lane.known_released == options_.window) {
    // Pairs with the release in release(): the reader is done with the slot's bytes.
    const uint64_t released = lane.line->released.load(std::memory_order_acquire);
    if (lane.count - released > options_.window) [[unlikely]]
      return fail("released " + std::to_string(released) + " messages of " + std::to_string(lane.count));
    lane.known_released = released;
    if (lane.count - released == options_.window) return std::optional<std::span<std::byte>>();
  }
  return std::optional(std::span(reinterpret_cast<std::byte*>(&header(lane) + 1), options_.slot_bytes));
}

Status ShmEndpoint::commit(Channel channel, size_t bytes, uint64_t tag) {
  if (!error_.ok()) [[unlikely]]
    return error_;
  GIMBAL_DCHECK(channel < options_.channels && bytes <= options_.slot_bytes);
  Lane& lane = sending_[channel];
  SlotHeader& slot = header(lane);
  slot.bytes = static_cast<uint32_t>(bytes);
  slot.tag = tag;
  // Publishes the message and the fields above; pairs with the acquire in front().
  slot.sequence.store(static_cast<uint32_t>(lane.count + 1), std::memory_order_release);
  advance(lane);
  ring_one(lot_, peer_doorbell_);
  return {};
}

Result<std::optional<ReceivedMessage>> ShmEndpoint::front(Channel channel) {
  if (!error_.ok()) [[unlikely]]
    return error_;
  GIMBAL_DCHECK(channel < options_.channels);
  const Lane& lane = receiving_[channel];
  const SlotHeader& slot = header(lane);
  if (slot.sequence.load(std::memory_order_acquire) != static_cast<uint32_t>(lane.count + 1)) {
    return std::optional<ReceivedMessage>();
  }
  const size_t bytes = *const_cast<const volatile uint32_t*>(&slot.bytes);  // once: what is checked is what is used
  if (bytes > options_.slot_bytes) [[unlikely]]
    return fail("sent a message of " + std::to_string(bytes) + " bytes in a slot of " + std::to_string(options_.slot_bytes));
  return std::optional(
      ReceivedMessage{.bytes = std::span(reinterpret_cast<const std::byte*>(&slot + 1), bytes), .tag = slot.tag});
}

void ShmEndpoint::release(Channel channel) {
  GIMBAL_DCHECK(channel < options_.channels);
  Lane& lane = receiving_[channel];
  advance(lane);
  lane.line->released.store(lane.count, std::memory_order_release);  // pairs with the acquire in acquire()
  ring_one(lot_, peer_doorbell_);
}

Status ShmEndpoint::fail(const std::string& what) {
  error_ = Status(Code::kInternal, "rank " + std::to_string(options_.peer) + " broke the shared memory link: it " + what);
  return error_;
}

}  // namespace gimbal
