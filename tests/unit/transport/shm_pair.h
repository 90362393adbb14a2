// Two shared-memory endpoints over one segment within the process.
#pragma once

#include <memory>

#include "base/parking.h"
#include "tests/unit/transport/endpoint_exchange.h"
#include "transport/shared_segment.h"
#include "transport/shm_endpoint.h"

namespace gimbal::testing {

struct ShmMemory {
  std::shared_ptr<SharedSegment> segment;
  std::span<std::byte> a_to_b;
  std::span<std::byte> b_to_a;
  ParkingLot lot = {};
  Doorbell doorbell_a = {};
  Doorbell doorbell_b = {};
};

inline std::shared_ptr<ShmMemory> make_shm_memory(Channel channels, size_t slot_bytes, size_t window) {
  const size_t lane = ShmEndpoint::lane_bytes(channels, slot_bytes, window);
  auto memory = std::make_shared<ShmMemory>();
  memory->segment = SharedSegment::create("test", 2 * lane).value();
  memory->a_to_b = {memory->segment->data(), lane};
  memory->b_to_a = {memory->segment->data() + lane, lane};
  return memory;
}

inline EndpointPair make_shm_pair(Channel channels, size_t slot_bytes, size_t window) {
  const std::shared_ptr<ShmMemory> memory = make_shm_memory(channels, slot_bytes, window);
  const auto options = [&](Rank peer) {
    return ShmEndpointOptions{.peer = peer, .channels = channels, .slot_bytes = slot_bytes, .window = window, .cost = {}};
  };
  auto a = std::make_unique<ShmEndpoint>(options(1), memory->a_to_b, memory->b_to_a, memory->lot, memory->doorbell_b);
  auto b = std::make_unique<ShmEndpoint>(options(0), memory->b_to_a, memory->a_to_b, memory->lot, memory->doorbell_a);
  return {.memory = memory, .a = std::move(a), .b = std::move(b)};
}

}  // namespace gimbal::testing
