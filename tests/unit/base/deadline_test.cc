#include "base/deadline.h"

#include <gtest/gtest.h>

#include <limits>

namespace gimbal {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(Deadline, OfNoTimeHasPassed) {
  EXPECT_TRUE(Deadline::after_ms(0).passed());
  EXPECT_TRUE(Deadline::after_ms(-5).passed());
  EXPECT_EQ(Deadline::after_ms(0).remaining_ns(), 0);
  EXPECT_EQ(Deadline::after_ms(0).remaining_ms(), 0);
}

TEST(Deadline, PassesAtItsTimeAndNotBefore) {
  const Deadline deadline = Deadline::after_ms(1000);
  EXPECT_FALSE(deadline.passed_at(deadline.at_ns() - 1));
  EXPECT_TRUE(deadline.passed_at(deadline.at_ns()));
}

TEST(Deadline, IsSoFarFromNowAsWasAsked) {
  const int64_t before = monotonic_ns();
  const Deadline deadline = Deadline::after_ms(3000);
  const int64_t after = monotonic_ns();
  EXPECT_GE(deadline.at_ns(), before + 3 * kSecondNs);
  EXPECT_LE(deadline.at_ns(), after + 3 * kSecondNs);
}

TEST(Deadline, NeverIsNeverPassed) {
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_FALSE(Deadline::never().passed_at(std::numeric_limits<int64_t>::max() - 1));
}

TEST(Deadline, AnAbsurdTimeoutDoesNotWrapIntoThePast) {
  EXPECT_FALSE(Deadline::after_ms(std::numeric_limits<int64_t>::max()).passed());
}

TEST(Deadline, MillisecondsForPollAreRoundedUpAndAtMostADay) {
  // 59.x s remain: rounded down, a last poll of 0 ms would spin until the deadline.
  EXPECT_EQ(Deadline::after_ms(60'000).remaining_ms(), 60'000);
  EXPECT_EQ(Deadline::never().remaining_ms(), 86'400'000);
}

}  // namespace
}  // namespace gimbal
