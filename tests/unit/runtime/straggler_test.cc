#include "runtime/straggler.h"

#include <gtest/gtest.h>

namespace gimbal::test {
namespace {

// A window in which every `every`-th wait is for rank 1 and the others are for rank 0; each operation takes `work` besides.
struct Load {
  uint64_t every = 1;
  uint64_t late_ticks = 100;
  uint64_t other_ticks = 10;
  uint64_t work_ticks = 100;
};

class Windows {
 public:
  explicit Windows(int64_t factor) : watch_(3, factor) {}
  std::optional<Straggler> run(const Load& load) {
    std::optional<Straggler> found;
    for (uint64_t wait = 0; wait < StragglerWatch::kWindow; ++wait) {
      const bool late = wait % load.every == 0;
      now_ += load.work_ticks + (late ? load.late_ticks : load.other_ticks);
      if (auto one = watch_.add(late ? 1 : 0, late ? load.late_ticks : load.other_ticks, now_)) found = one;
    }
    return found;
  }

 private:
  StragglerWatch watch_;
  uint64_t now_ = 1'000;
};

TEST(Straggler, IsTheRankThatMostWaitsAreForAndLong) {
  const std::optional<Straggler> found = Windows(3).run({.every = 1, .late_ticks = 100});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->waits, StragglerWatch::kWindow);
  EXPECT_DOUBLE_EQ(found->mean_ticks, 100);
  EXPECT_NEAR(found->share, 0.5, 0.01);
}

TEST(Straggler, IsNobodyWhenAnotherIsTheLastAsOften) { EXPECT_FALSE(Windows(3).run({.every = 2}).has_value()); }

TEST(Straggler, IsNobodyWhenTheWaitsForItAreNotLongerByTheFactor) {
  StragglerWatch watch(3, 3);
  uint64_t now = 0;
  std::optional<Straggler> found;
  for (uint64_t wait = 0; wait < StragglerWatch::kWindow; ++wait) {
    now += 100;
    const bool other = wait % 4 == 0;
    if (auto one = watch.add(other ? 0 : 1, other ? 20 : 50, now)) found = one;
  }
  EXPECT_FALSE(found.has_value()) << "2.5 times as long";
}

TEST(Straggler, IsNobodyWhenTheWaitsCostNothing) {
  EXPECT_FALSE(Windows(3).run({.every = 1, .late_ticks = 100, .other_ticks = 10, .work_ticks = 100'000}).has_value());
}

TEST(Straggler, IsNotLookedForWithFactorZero) { EXPECT_FALSE(Windows(0).run({}).has_value()); }

TEST(Straggler, IsReportedAgainEverMoreSeldom) {
  Windows windows(3);
  std::string reports;
  for (int window = 0; window < 16; ++window) reports += windows.run({}) ? 'x' : '.';
  EXPECT_EQ(reports, "x.x..x....x.....");
}

}  // namespace
}  // namespace gimbal::test
