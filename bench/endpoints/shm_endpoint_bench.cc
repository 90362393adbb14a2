// The shared-memory endpoint between two threads: round trips (latency) and one way (messages and bytes per second).
#include <benchmark/benchmark.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "base/parking.h"
#include "transport/shared_segment.h"
#include "transport/shm_endpoint.h"

namespace gimbal {
namespace {

constexpr size_t kWindow = 8;

struct Link {
  explicit Link(size_t slot_bytes) {
    const size_t lane = ShmEndpoint::lane_bytes(1, slot_bytes, kWindow);
    segment = SharedSegment::create("bench", 2 * lane).value();
    const std::span<std::byte> there(segment->data(), lane);
    const std::span<std::byte> back(segment->data() + lane, lane);
    const auto options = [&](Rank peer) {
      return ShmEndpointOptions{.peer = peer, .channels = 1, .slot_bytes = slot_bytes, .window = kWindow, .cost = {}};
    };
    a = std::make_unique<ShmEndpoint>(options(1), there, back, lot, doorbells[1]);
    b = std::make_unique<ShmEndpoint>(options(0), back, there, lot, doorbells[0]);
  }
  std::shared_ptr<SharedSegment> segment;
  ParkingLot lot = {};
  Doorbell doorbells[2] = {};
  std::unique_ptr<ShmEndpoint> a;
  std::unique_ptr<ShmEndpoint> b;
};

// Gives the other thread the CPU when there is only one.
void spin(uint32_t& tries) {
  if (++tries % 1024 == 0) sched_yield();
}

// False when `stop` came first.
bool send(ShmEndpoint& endpoint, size_t bytes, const std::atomic<bool>& stop) {
  for (uint32_t tries = 0; !stop.load(std::memory_order_relaxed); spin(tries)) {
    const auto slot = endpoint.acquire(0, bytes);
    if (!slot.ok() || !slot->has_value()) continue;
    std::memset((*slot)->data(), 1, bytes);
    return endpoint.commit(0, bytes, 0).ok();
  }
  return false;
}

bool receive(ShmEndpoint& endpoint, const std::atomic<bool>& stop) {
  for (uint32_t tries = 0; !stop.load(std::memory_order_relaxed); spin(tries)) {
    const auto message = endpoint.front(0);
    if (!message.ok() || !message->has_value()) continue;
    uint64_t sum = 0;
    for (const std::byte byte : (*message)->bytes) sum += std::to_integer<uint64_t>(byte);
    benchmark::DoNotOptimize(sum);
    endpoint.release(0);
    return true;
  }
  return false;
}

void round_trip(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  Link link(bytes);
  std::atomic<bool> stop{false};
  std::thread echo([&] {
    while (receive(*link.b, stop) && send(*link.b, bytes, stop)) continue;
  });
  for (auto _ : state) {
    send(*link.a, bytes, stop);
    receive(*link.a, stop);
  }
  stop.store(true);
  echo.join();
}
BENCHMARK(round_trip)->Arg(8)->Arg(48)->Arg(1024)->Arg(32768)->UseRealTime();

void one_way(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  Link link(bytes);
  std::atomic<bool> stop{false};
  std::thread sink([&] {
    while (receive(*link.b, stop)) continue;
  });
  for (auto _ : state) send(*link.a, bytes, stop);
  stop.store(true);
  sink.join();
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(one_way)->Arg(8)->Arg(48)->Arg(1024)->Arg(32768)->UseRealTime();

}  // namespace
}  // namespace gimbal
