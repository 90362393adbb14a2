// Waits that end: with what was waited for, at the deadline, when the host aborts, or when another block has given up.
#pragma once

#include "kernels/cuda/platform.h"
#include "kernels/cuda/shared.h"

namespace gimbal::device {

// Where in the operation a block is, for the report.
struct Trouble {
  DeviceError error = DeviceError::kNone;
  Rank peer = kNoRank;
  uint32_t step = 0;
  bool is_sending = false;
  uint64_t expected_tag = 0;
  uint64_t received_tag = 0;
};

// The first report of the communicator stays. The claim is taken in device memory, since not every link to the host has
// atomics.
__device__ inline void report(const Watch& watch, const Trouble& trouble) {
  uint32_t unclaimed = 0;
  if (!SharedWord<uint32_t>(watch.state->claimed).compare_exchange_strong(unclaimed, 1, memory_order_acq_rel)) return;
  DeviceReport& to = *watch.report;
  to.peer = trouble.peer;
  to.channel = blockIdx.x;
  to.step = trouble.step;
  to.is_sending = trouble.is_sending ? 1 : 0;
  to.expected_tag = trouble.expected_tag;
  to.received_tag = trouble.received_tag;
  // Publishes the fields above to the host.
  SharedWord<uint32_t>(to.error).store(static_cast<uint32_t>(trouble.error), memory_order_release);
}

// Whether the communicator has failed before: its kernels then do nothing.
__device__ __forceinline__ bool has_failed(const Watch& watch) {
  return SharedWord<uint32_t>(watch.state->claimed).load(memory_order_acquire) != 0;
}

// One wait of one thread. Deadline and abort are looked at every 256 turns: a look at the host's memory takes a microsecond.
class Wait {
 public:
  __device__ explicit Wait(const Watch& watch) : watch_(watch) {}

  // kNone: go on waiting. kClaimed: another block has reported, leave.
  __device__ DeviceError turn() {
    pause(turns_);
    constexpr uint32_t kTurnsPerLook = 256;
    if (++turns_ % kTurnsPerLook != 0) return DeviceError::kNone;
    if (has_failed(watch_)) return DeviceError::kClaimed;
    if (SharedWord<uint32_t>(watch_.report->abort).load(memory_order_relaxed) != 0) return DeviceError::kAborted;
    const uint64_t now = clock_ns();
    if (start_ == 0) start_ = now;
    return now - start_ > watch_.timeout_ns ? DeviceError::kTimeout : DeviceError::kNone;
  }

 private:
  const Watch& watch_;
  uint64_t start_ = 0;
  uint32_t turns_ = 0;
};

// A packet that somebody has begun to write, or will: false when the wait has ended without it, which is reported.
__device__ __forceinline__ bool receive_packet(Packet* from, uint32_t flag, const Watch& watch, Rank peer, uint64_t* data) {
  if (load_packet(from, flag, data)) return true;
  Wait wait(watch);
  while (!load_packet(from, flag, data)) {
    const DeviceError error = wait.turn();
    if (error == DeviceError::kNone) continue;
    if (error != DeviceError::kClaimed) {
      Trouble trouble;
      trouble.error = error;
      trouble.peer = peer;
      report(watch, trouble);
    }
    return false;
  }
  return true;
}

}  // namespace gimbal::device
