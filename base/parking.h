// How a rank waits: spin, yield, then sleep on a futex, each bounded; and how a peer wakes it.
//
// Every rank of a node has one Doorbell in shared memory. A rank that found nothing to do calls Waiter::pause(); a rank that
// changed something that peers may wait for calls ring(). The cost for the one who rings while nobody sleeps is one load of a
// line that hardly ever changes.
//
// Invariants: parked counts the waiters between arming and disarming; ParkingLot::sleepers is their number over all doorbells.
// A change is published before ring(); a waiter looks again after arming. ring() has no fence between the two, which would wait
// for the change to reach the peers' caches (100 ns of a 140 ns operation): a ringer whose change is still on its way may thus
// miss a waiter that arms in the same moment. The first sleep after arming is therefore short (kFirstSleepNs): such a waiter
// looks again within it. Later sleeps cannot be missed: the waiter has been armed for long.
//
// Measured on a virtual machine of 2 cores, kernel 6.18: a sched_yield hands over in about 1 us, a futex sleep and wake costs
// 20-30 us.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace gimbal {

struct alignas(64) ParkingLot {
  std::atomic<uint32_t> sleepers;
};

struct alignas(64) Doorbell {
  std::atomic<uint32_t> bell;    // futex word: changes with every ring of an armed doorbell
  std::atomic<uint32_t> parked;  // number of armed waiters: a rank's caller and its progress thread may both wait
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Where a waiter sleeps when its doorbell is not all that can end its wait: a rank with peers on other hosts waits for sockets
// too (transport/poll_sleeper.h).
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  // Until `bell` is no longer `expected`, something else that this object watches has happened, or the time is up. Waking for
  // no reason is allowed, missing a reason is not.
  virtual void sleep(std::atomic<uint32_t>& bell, uint32_t expected, int64_t timeout_ns) = 0;
};

// On the futex alone.
void sleep_on_bell(std::atomic<uint32_t>& bell, uint32_t expected, int64_t timeout_ns);
// Ends the sleeps on it, whatever its value.
void wake_sleepers(std::atomic<uint32_t>& bell);

// Wakes every armed rank among `doorbells`.
void ring(ParkingLot& lot, std::span<Doorbell> doorbells);
// Wakes one rank if it is armed.
void ring_one(ParkingLot& lot, Doorbell& doorbell);

struct WaitPolicy {
  int64_t spin_ns;
  int64_t yield_ns;
  // The longest single sleep: after it the caller looks at its deadline and at its peers' lives.
  int64_t park_slice_ns;
};

// ranks_on_node against the CPUs that those ranks may use (affinity and cgroup quota).
WaitPolicy choose_wait_policy(int ranks_on_node, double usable_cpus);

// Corrects a policy by what waits really take: when spinning was in vain time after time (somebody else holds the CPU that the
// peer needs, or the peer is late as a habit), waits yield at once; every kProbe-th one still spins, to notice when times are
// better. Measured beside 15 busy processes on 2 CPUs, 8-byte all-reduce of 2 ranks: always spinning 30 us 123 us, 5 us 31 us,
// never 6 us; on idle CPUs spinning takes 0.14 us and yielding 0.28 us. Not thread safe.
class AdaptiveWaitPolicy {
 public:
  static constexpr uint32_t kProbe = 32;

  AdaptiveWaitPolicy() = default;
  explicit AdaptiveWaitPolicy(const WaitPolicy& patient) : patient_(patient), impatient_(patient) { impatient_.spin_ns = 0; }

  // For the next wait; valid as long as this object.
  const WaitPolicy& next() {
    if (vain_ < kTolerated) return patient_;
    return ++waits_ % kProbe == 0 ? patient_ : impatient_;
  }
  // A wait under `used` ended, while it was still spinning or later.
  void ended(const WaitPolicy& used, bool while_spinning) {
    if (&used != &patient_ || patient_.spin_ns == 0) return;
    if (while_spinning) {
      vain_ = vain_ > 0 ? vain_ - 1 : 0;
    } else if (vain_ < kTolerated + 1) {
      ++vain_;
    }
  }

 private:
  static constexpr uint32_t kTolerated = 3;
  WaitPolicy patient_ = {};
  WaitPolicy impatient_ = {};
  uint32_t vain_ = 0;
  uint32_t waits_ = 0;
};

// One wait of one thread. Not thread safe.
class Waiter {
 public:
  static constexpr int64_t kFirstSleepNs = 1'000'000;

  enum class Pause : uint8_t { kSpun, kYielded, kArmed, kSlept };

  // Without a sleeper it sleeps on the futex of its doorbell.
  Waiter(const WaitPolicy& policy, ParkingLot& lot, Doorbell& mine, Sleeper* sleeper = nullptr)
      : policy_(policy), lot_(lot), mine_(mine), sleeper_(sleeper) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter() { disarm(); }

  // After a look that found nothing. kArmed means: look once more, the next pause sleeps. Both kArmed and kSlept are moments to
  // look at the deadline.
  Pause pause();
  // After a look that found something: the next pause begins with spinning again.
  void reset() {
    disarm();
    pauses_ = 0;
    started_ns_ = 0;
    only_spun_ = true;
  }
  // Whether it has neither yielded nor slept since its beginning or the last reset.
  [[nodiscard]] bool only_spun() const { return only_spun_; }

 private:
  void arm();
  void disarm();

  const WaitPolicy& policy_;
  ParkingLot& lot_;
  Doorbell& mine_;
  Sleeper* const sleeper_;
  int64_t started_ns_ = 0;
  uint32_t pauses_ = 0;
  uint32_t bell_ = 0;
  bool armed_ = false;
  bool slept_ = false;  // since it was armed
  bool only_spun_ = true;
};

}  // namespace gimbal
