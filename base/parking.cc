#include "base/parking.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "base/deadline.h"
#include "base/relax.h"

namespace gimbal {
namespace {

uint32_t* word(std::atomic<uint32_t>& value) { return reinterpret_cast<uint32_t*>(&value); }

void ring_armed(Doorbell& doorbell) {
  if (doorbell.parked.load(std::memory_order_seq_cst) == 0) return;
  doorbell.bell.fetch_add(1, std::memory_order_release);
  wake_sleepers(doorbell.bell);
}

}  // namespace

void wake_sleepers(std::atomic<uint32_t>& bell) { syscall(SYS_futex, word(bell), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

void sleep_on_bell(std::atomic<uint32_t>& bell, uint32_t expected, int64_t timeout_ns) {
  timespec timeout = {};
  timeout.tv_sec = timeout_ns / 1'000'000'000;
  timeout.tv_nsec = timeout_ns % 1'000'000'000;
  // EAGAIN, EINTR and ETIMEDOUT all mean: look again.
  syscall(SYS_futex, word(bell), FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void ring(ParkingLot& lot, std::span<Doorbell> doorbells) {
  if (lot.sleepers.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  for (Doorbell& doorbell : doorbells) ring_armed(doorbell);
}

void ring_one(ParkingLot& lot, Doorbell& doorbell) {
  if (lot.sleepers.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  ring_armed(doorbell);
}

WaitPolicy choose_wait_policy(int ranks_on_node, double usable_cpus) {
  constexpr int64_t kParkSliceNs = 50'000'000;
  // A wait that outlasts a few wake-ups (20-30 us each) may as well sleep; a shorter one must not.
  if (ranks_on_node <= usable_cpus) return {.spin_ns = 10'000, .yield_ns = 200'000, .park_slice_ns = kParkSliceNs};
  // Whoever spins holds the CPU that the peer needs: yield at once, for the time that all ranks need to take a few turns each.
  return {.spin_ns = 0, .yield_ns = 20'000 + 10'000 * static_cast<int64_t>(ranks_on_node), .park_slice_ns = kParkSliceNs};
}

Waiter::Pause Waiter::pause() {
  // The clock costs as much as a few pauses; the first ones go without it.
  constexpr uint32_t kPausesBeforeClock = 64;
  if (policy_.spin_ns > 0 && pauses_ < kPausesBeforeClock) {
    ++pauses_;
    relax();
    return Pause::kSpun;
  }
  if (armed_) {
    const int64_t longest_ns = slept_ ? policy_.park_slice_ns : std::min(kFirstSleepNs, policy_.park_slice_ns);
    if (sleeper_ != nullptr) {
      sleeper_->sleep(mine_.bell, bell_, longest_ns);
    } else {
      sleep_on_bell(mine_.bell, bell_, longest_ns);
    }
    slept_ = true;
    bell_ = mine_.bell.load(std::memory_order_acquire);
    return Pause::kSlept;
  }
  const int64_t now = monotonic_ns();
  if (started_ns_ == 0) started_ns_ = now;
  const int64_t waited = now - started_ns_;
  if (waited < policy_.spin_ns) {
    for (int i = 0; i < 16; ++i) relax();
    return Pause::kSpun;
  }
  only_spun_ = false;
  if (waited < policy_.spin_ns + policy_.yield_ns) {
    sched_yield();
    return Pause::kYielded;
  }
  arm();
  return Pause::kArmed;
}

void Waiter::arm() {
  bell_ = mine_.bell.load(std::memory_order_relaxed);
  mine_.parked.fetch_add(1, std::memory_order_seq_cst);
  lot_.sleepers.fetch_add(1, std::memory_order_seq_cst);
  armed_ = true;
  slept_ = false;
}

void Waiter::disarm() {
  if (!armed_) return;
  armed_ = false;
  mine_.parked.fetch_sub(1, std::memory_order_relaxed);
  lot_.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace gimbal
