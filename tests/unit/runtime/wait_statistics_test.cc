#include "runtime/wait_statistics.h"

#include <gtest/gtest.h>

namespace gimbal::test {
namespace {

TEST(WaitStatistics, NobodyStandsOutBeforeAFewWaits) {
  WaitStatistics statistics(3);
  EXPECT_EQ(statistics.latest().rank, -1);
  for (int i = 0; i < 7; ++i) statistics.add(1, 100);
  EXPECT_EQ(statistics.latest().rank, -1);
  statistics.add(1, 100);
  EXPECT_EQ(statistics.latest().rank, 1);
}

TEST(WaitStatistics, NobodyStandsOutWhenAllAreEquallyLate) {
  WaitStatistics statistics(2);
  for (int i = 0; i < 100; ++i) statistics.add(i % 2, 100);
  EXPECT_EQ(statistics.latest().rank, -1);
}

TEST(WaitStatistics, WaitsForNobodyInParticularCountAsTimeOnly) {
  WaitStatistics statistics(2);
  for (int i = 0; i < 100; ++i) statistics.add(-1, 1'000'000);
  for (int i = 0; i < 100; ++i) statistics.add(2, 1'000'000);  // no such rank
  EXPECT_EQ(statistics.latest().rank, -1);
  EXPECT_GT(statistics.total_ns(), 0U);
}

TEST(WaitStatistics, MeanIsThatOfTheLatestRanksWaitsInNanoseconds) {
  WaitStatistics statistics(2);
  const int64_t begin_ns = monotonic_ns();
  const uint64_t begin = ticks();
  while (monotonic_ns() - begin_ns < 20'000'000) {
  }
  const uint64_t waited_ticks = ticks() - begin;
  const auto waited_ns = static_cast<double>(monotonic_ns() - begin_ns);
  for (int i = 0; i < 10; ++i) statistics.add(0, 1);
  for (int i = 0; i < 20; ++i) statistics.add(1, waited_ticks);
  EXPECT_EQ(statistics.latest().rank, 1);
  // A factor of two covers whatever interrupted the reading of the clocks; ticks and nanoseconds differ by more.
  EXPECT_GT(static_cast<double>(statistics.latest().mean_ns), waited_ns / 2);
  EXPECT_LT(static_cast<double>(statistics.latest().mean_ns), waited_ns * 2);
  EXPECT_GT(static_cast<double>(statistics.total_ns()), waited_ns * 10);
}

TEST(LongestWait, IsForWhomTheOperationWaitedLongestNotLast) {
  LongestWait wait;
  wait.look(1, false);
  const int64_t begin_ns = monotonic_ns();
  while (monotonic_ns() - begin_ns < 50'000'000) wait.look(1, false);
  wait.look(0, true);
  wait.look(2, false);
  wait.end();
  EXPECT_EQ(wait.rank(), 1);
}

TEST(LongestWait, IsForNobodyWhenNobodyInParticularWasAwaited) {
  LongestWait wait;
  wait.look(-1, false);
  wait.end();
  EXPECT_EQ(wait.rank(), -1);
}

TEST(WaitStatistics, RankThatIsNoLongerLateIsForgotten) {
  WaitStatistics statistics(4);
  for (int i = 0; i < 100'000; ++i) statistics.add(2, 100);
  EXPECT_EQ(statistics.latest().rank, 2);
  for (uint64_t i = 0; i < 2 * WaitStatistics::kWindowEvents; ++i) statistics.add(3, 100);
  EXPECT_EQ(statistics.latest().rank, 3);
}

TEST(WaitStatistics, ClearForgetsEverything) {
  WaitStatistics statistics(2);
  for (int i = 0; i < 50; ++i) statistics.add(1, 1'000'000);
  statistics.clear();
  EXPECT_EQ(statistics.latest().rank, -1);
  EXPECT_EQ(statistics.total_ns(), 0U);
}

}  // namespace
}  // namespace gimbal::test
