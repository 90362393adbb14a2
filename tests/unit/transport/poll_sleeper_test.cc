#include "transport/poll_sleeper.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <thread>

#include "base/deadline.h"

namespace gimbal::testing {
namespace {

// So long that a lost wake-up shows: sleeps that end by their time take longer than kLostNs.
constexpr int64_t kLongNs = 20'000'000'000;
constexpr int64_t kLostNs = 10'000'000'000;
constexpr WaitPolicy kParkAtOnce = {.spin_ns = 0, .yield_ns = 0, .park_slice_ns = kLongNs};

// Its one socket is an eventfd.
class ReadyPoller final : public SocketPoller {
 public:
  ReadyPoller() : ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  [[nodiscard]] SocketIo io() const override { return SocketIo::kEpoll; }
  [[nodiscard]] int fd() const override { return ready_.get(); }
  Status add(SocketUser& /*user*/) override { return {}; }
  void remove(SocketUser& /*user*/) override {}
  Status look() override { return {}; }
  bool may_sleep() override { return !knows_more; }

  bool knows_more = false;

 private:
  void watch_writable(SocketUser& /*user*/) override {}

  FileDescriptor ready_;
};

class PollSleeperTest : public ::testing::Test {
 protected:
  PollSleeperTest() { sleeper_ = std::move(PollSleeper::create({}, {&poller_})).value(); }
  void make_ready() const {
    const uint64_t one = 1;
    ASSERT_EQ(write(poller_.fd(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }

  ReadyPoller poller_;
  ParkingLot lot_ = {};
  Doorbell bell_ = {};
  std::unique_ptr<PollSleeper> sleeper_;
};

TEST_F(PollSleeperTest, EndsWhenASocketIsReady) {
  const int64_t began = monotonic_ns();
  std::thread other([&] { make_ready(); });
  sleeper_->sleep(bell_.bell, 0, kLongNs);
  other.join();
  EXPECT_LT(monotonic_ns() - began, kLostNs);
}

TEST_F(PollSleeperTest, DoesNotSleepWhileAPollerKnowsMore) {
  const int64_t began = monotonic_ns();
  poller_.knows_more = true;
  sleeper_->sleep(bell_.bell, 0, kLongNs);
  EXPECT_LT(monotonic_ns() - began, kLostNs);
}

TEST_F(PollSleeperTest, EndsAfterItsTime) {
  const int64_t began = monotonic_ns();
  sleeper_->sleep(bell_.bell, 0, 1'000'000);
  EXPECT_GE(monotonic_ns() - began, 1'000'000);
}

TEST_F(PollSleeperTest, EndsAtOnceWhenTheBellHasRungBefore) {
  const int64_t began = monotonic_ns();
  bell_.bell.store(1);
  sleeper_->sleep(bell_.bell, 0, kLongNs);
  EXPECT_LT(monotonic_ns() - began, kLostNs);
}

// Every ring must end a wait, whether the watcher still watches for an earlier one or not.
TEST_F(PollSleeperTest, NoRingOfAnArmedWaiterIsMissed) {
  constexpr uint32_t kRounds = 500;
  std::atomic<uint32_t> word{0};
  std::atomic<uint32_t> seen{0};
  std::thread ringer([&] {
    for (uint32_t round = 1; round <= kRounds; ++round) {
      while (bell_.parked.load() == 0 && seen.load() < round) std::this_thread::yield();
      word.store(round);
      ring_one(lot_, bell_);
      while (seen.load() < round) std::this_thread::yield();
    }
  });
  const int64_t began = monotonic_ns();
  for (uint32_t round = 1; round <= kRounds; ++round) {
    Waiter waiter(kParkAtOnce, lot_, bell_, sleeper_.get());
    while (word.load() < round) waiter.pause();
    seen.store(round);
  }
  ringer.join();
  EXPECT_LT(monotonic_ns() - began, kLostNs);
}

TEST_F(PollSleeperTest, AReadySocketEndsASleepWhileTheBellIsWatched) {
  const int64_t began = monotonic_ns();
  sleeper_->sleep(bell_.bell, 0, 1'000'000);  // leaves the watcher behind
  make_ready();
  sleeper_->sleep(bell_.bell, 0, kLongNs);
  bell_.bell.store(1);
  wake_sleepers(bell_.bell);
  uint64_t value = 0;
  ASSERT_EQ(read(poller_.fd(), &value, sizeof(value)), static_cast<ssize_t>(sizeof(value)));
  sleeper_->sleep(bell_.bell, 0, kLongNs);
  EXPECT_LT(monotonic_ns() - began, kLostNs);
}

}  // namespace
}  // namespace gimbal::testing
