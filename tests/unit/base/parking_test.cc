#include "base/parking.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/deadline.h"

namespace gimbal {
namespace {

// Sleeps at once, and so long that a lost wake-up shows as the test's own deadline.
constexpr WaitPolicy kParkAtOnce = {.spin_ns = 0, .yield_ns = 0, .park_slice_ns = 20'000'000'000};
constexpr int64_t kLostNs = 10'000'000'000;

// Pauses until `word` is no longer `old`; the number of pauses that slept.
int wait_for_change(Waiter& waiter, const std::atomic<uint32_t>& word, uint32_t old) {
  int slept = 0;
  while (word.load(std::memory_order_acquire) == old) slept += waiter.pause() == Waiter::Pause::kSlept ? 1 : 0;
  waiter.reset();
  return slept;
}

TEST(Waiter, SpinsThenYieldsThenArmsThenSleeps) {
  // The yields go on for longer than a busy machine keeps this thread from running between two of them.
  const WaitPolicy policy = {.spin_ns = 1'000'000, .yield_ns = 100'000'000, .park_slice_ns = 1'000'000};
  ParkingLot lot = {};
  Doorbell bell = {};
  Waiter waiter(policy, lot, bell);
  std::vector<Waiter::Pause> seen;
  while (seen.empty() || seen.back() != Waiter::Pause::kSlept) {
    const Waiter::Pause pause = waiter.pause();
    if (seen.empty() || seen.back() != pause) seen.push_back(pause);
  }
  const std::vector<Waiter::Pause> expected = {Waiter::Pause::kSpun, Waiter::Pause::kYielded, Waiter::Pause::kArmed,
                                               Waiter::Pause::kSlept};
  EXPECT_EQ(seen, expected);
}

TEST(Waiter, WithoutSpinningArmsOnceItsYieldsAreUsedUp) {
  ParkingLot lot = {};
  Doorbell bell = {};
  Waiter waiter(kParkAtOnce, lot, bell);
  EXPECT_EQ(waiter.pause(), Waiter::Pause::kArmed);
}

TEST(Waiter, IsCountedWhileItIsArmedOnly) {
  ParkingLot lot = {};
  Doorbell bell = {};
  {
    Waiter waiter(kParkAtOnce, lot, bell);
    waiter.pause();
    EXPECT_EQ(bell.parked, 1u);
    EXPECT_EQ(lot.sleepers, 1u);
    waiter.reset();
    EXPECT_EQ(lot.sleepers, 0u);
    waiter.pause();
  }
  EXPECT_EQ(bell.parked, 0u);
  EXPECT_EQ(lot.sleepers, 0u);
}

TEST(Waiter, TwoWaitersMayShareADoorbell) {
  ParkingLot lot = {};
  Doorbell bell = {};
  Waiter caller(kParkAtOnce, lot, bell);
  Waiter progress(kParkAtOnce, lot, bell);
  caller.pause();
  progress.pause();
  EXPECT_EQ(bell.parked, 2u);
  caller.reset();
  ring_one(lot, bell);
  EXPECT_EQ(progress.pause(), Waiter::Pause::kSlept);  // at once: the bell has changed
}

TEST(Waiter, ASleepEndsAfterItsSlice) {
  const WaitPolicy policy = {.spin_ns = 0, .yield_ns = 0, .park_slice_ns = 1'000'000};
  ParkingLot lot = {};
  Doorbell bell = {};
  Waiter waiter(policy, lot, bell);
  waiter.pause();
  const int64_t before = monotonic_ns();
  EXPECT_EQ(waiter.pause(), Waiter::Pause::kSlept);
  EXPECT_GE(monotonic_ns() - before, 1'000'000);
}

TEST(Ring, ChangesNoBellWhileNobodyIsArmed) {
  ParkingLot lot = {};
  std::array<Doorbell, 3> bells = {};
  ring(lot, bells);
  for (const Doorbell& bell : bells) EXPECT_EQ(bell.bell, 0u);
}

TEST(Ring, ChangesTheBellsOfArmedRanksOnly) {
  ParkingLot lot = {};
  std::array<Doorbell, 3> bells = {};
  Waiter waiter(kParkAtOnce, lot, bells[1]);
  waiter.pause();
  ring(lot, bells);
  EXPECT_EQ(bells[0].bell, 0u);
  EXPECT_EQ(bells[1].bell, 1u);
  EXPECT_EQ(bells[2].bell, 0u);
}

TEST(Ring, BetweenArmingAndSleepingKeepsTheWaiterFromSleeping) {
  ParkingLot lot = {};
  std::array<Doorbell, 1> bells = {};
  Waiter waiter(kParkAtOnce, lot, bells[0]);
  ASSERT_EQ(waiter.pause(), Waiter::Pause::kArmed);
  ring(lot, bells);
  const int64_t before = monotonic_ns();
  waiter.pause();
  EXPECT_LT(monotonic_ns() - before, kLostNs);
}

TEST(Ring, WakesAParkedWaiter) {
  ParkingLot lot = {};
  std::array<Doorbell, 2> bells = {};
  std::atomic<uint32_t> word = 0;
  std::thread sleeper([&] {
    Waiter waiter(kParkAtOnce, lot, bells[1]);
    wait_for_change(waiter, word, 0);
  });
  while (lot.sleepers.load() == 0) std::this_thread::yield();
  const int64_t before = monotonic_ns();
  word.store(1, std::memory_order_release);
  ring(lot, bells);
  sleeper.join();
  EXPECT_LT(monotonic_ns() - before, kLostNs);
}

// Each rank waits for the one before it and sets its own word, round after round, and parks in every wait: one lost wake-up
// stops the ring until the park slice ends.
TEST(Ring, NoWakeUpIsLostWhenThreadsHammer) {
  constexpr size_t kRanks = 3;
  constexpr uint32_t kRounds = 2000;
  ParkingLot lot = {};
  std::array<Doorbell, kRanks> bells = {};
  std::array<std::atomic<uint32_t>, kRanks> words = {};
  std::array<uint32_t, kRanks> payload = {};  // plain: the acquire of the word must publish it
  std::atomic<uint32_t> wrong = 0;
  const auto rank = [&](size_t me) {
    const size_t before = (me + kRanks - 1) % kRanks;
    Waiter waiter(kParkAtOnce, lot, bells[me]);
    for (uint32_t round = 1; round <= kRounds; ++round) {
      const uint32_t expected = me == 0 ? round - 1 : round;
      while (words[before].load(std::memory_order_acquire) < expected) waiter.pause();
      waiter.reset();
      if (payload[before] != expected) ++wrong;
      payload[me] = round;
      words[me].store(round, std::memory_order_release);
      ring_one(lot, bells[(me + 1) % kRanks]);
    }
  };
  const int64_t start = monotonic_ns();
  std::vector<std::thread> threads;
  for (size_t me = 0; me < kRanks; ++me) threads.emplace_back(rank, me);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_LT(monotonic_ns() - start, kLostNs);
  EXPECT_EQ(lot.sleepers, 0u);
}

TEST(WaitPolicy, SpinsOnlyWhenEveryRankHasACpuOfItsOwn) {
  EXPECT_GT(choose_wait_policy(2, 2.0).spin_ns, 0);
  EXPECT_EQ(choose_wait_policy(3, 2.0).spin_ns, 0);
  EXPECT_EQ(choose_wait_policy(2, 1.5).spin_ns, 0);
  EXPECT_EQ(choose_wait_policy(8, 2.0).spin_ns, 0);
}

TEST(WaitPolicy, BoundsEveryPhase) {
  for (const int ranks : {1, 2, 64, 1000}) {
    const WaitPolicy policy = choose_wait_policy(ranks, 2.0);
    EXPECT_LE(policy.spin_ns, 100'000);
    EXPECT_GT(policy.yield_ns, 0);
    EXPECT_LE(policy.yield_ns, 20'000'000);
    EXPECT_GT(policy.park_slice_ns, 0);
    EXPECT_LE(policy.park_slice_ns, 1'000'000'000);
  }
}

}  // namespace
}  // namespace gimbal
