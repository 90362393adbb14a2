// The two ends of a DeviceLink: one source for kernels and for the host thread that serves a remote peer.
//
// Only one thread uses an end. What the other threads of its block do with a slot's bytes lies between two barriers of the
// block: the one after the end was asked, and the one before the end is told.
#pragma once

#include "kernels/cuda/platform.h"
#include "kernels/cuda/shared.h"

namespace gimbal::device {

__host__ __device__ inline std::byte* slot_of(const DeviceLink& link, uint64_t message) {
  return link.slots + message % link.slot_count * link.slot_stride;
}

// Never 0, which is the flag of fresh memory; equal flags of one place are 2^32 - 1 messages apart.
__host__ __device__ inline uint32_t packet_flag(uint64_t message) { return static_cast<uint32_t>(message % 0xFFFFFFFFU) + 1; }

// Sender. The acquire pairs with release_slot(): the receiver has read what the slot held.
__host__ __device__ inline bool has_room(const DeviceLink& link) {
  return *link.position - SharedWord<uint64_t>(*link.head).load(memory_order_acquire) < link.slot_count;
}

// Sender, kSimple: publishes the slot's bytes and its header.
__host__ __device__ inline void publish_slot(const DeviceLink& link, uint64_t tag, uint64_t bytes) {
  const uint64_t message = (*link.position)++;
  link.headers[message % link.slot_count] = {tag, bytes};
  SharedWord<uint64_t>(*link.tail).store(message + 1, memory_order_release);
}

// Receiver, kSimple. The acquire pairs with publish_slot().
__host__ __device__ inline bool has_message(const DeviceLink& link) {
  return SharedWord<uint64_t>(*link.tail).load(memory_order_acquire) > *link.position;
}

__host__ __device__ inline SlotHeader header_of(const DeviceLink& link) {
  return link.headers[*link.position % link.slot_count];
}

// Receiver: the slot's bytes have been read. Release: no read of them comes later.
__host__ __device__ inline void release_slot(const DeviceLink& link) {
  const uint64_t message = (*link.position)++;
  SharedWord<uint64_t>(*link.head).store(message + 1, memory_order_release);
}

}  // namespace gimbal::device
