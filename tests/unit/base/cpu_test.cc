#include "base/cpu.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gimbal {
namespace {

TEST(CpuQuota, IsTheShareOfThePeriod) {
  EXPECT_DOUBLE_EQ(parse_cpu_quota("150000 100000"), 1.5);
  EXPECT_DOUBLE_EQ(parse_cpu_quota("50000 100000\n"), 0.5);
  EXPECT_DOUBLE_EQ(parse_cpu_quota("400000 50000"), 8.0);
}

TEST(CpuQuota, IsInfiniteWithoutAQuota) {
  EXPECT_TRUE(std::isinf(parse_cpu_quota("max 100000")));
  EXPECT_TRUE(std::isinf(parse_cpu_quota("-1\n 100000\n")));  // version 1 says it so
}

TEST(CpuQuota, IsInfiniteWhenItCannotBeRead) {
  for (const char* text : {"", "100000", "a b", "100000 0", "0 100000", "100000 -5"}) {
    EXPECT_TRUE(std::isinf(parse_cpu_quota(text))) << text;
  }
}

TEST(CpuAllowance, OfThisProcessIsOneCpuAtLeast) {
  const CpuAllowance allowance = read_cpu_allowance();
  EXPECT_GE(CPU_COUNT(&allowance.affinity), 1);
  EXPECT_GT(allowance.quota_cpus, 0);
}

TEST(CpuAllowance, FollowsTheAffinityMask) {
  const CpuAllowance before = read_cpu_allowance();
  int first = 0;
  while (!CPU_ISSET(first, &before.affinity)) ++first;
  cpu_set_t one = {};
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const CpuAllowance bound = read_cpu_allowance();
  ASSERT_EQ(sched_setaffinity(0, sizeof(before.affinity), &before.affinity), 0);
  EXPECT_EQ(CPU_COUNT(&bound.affinity), 1);
  EXPECT_TRUE(CPU_ISSET(first, &bound.affinity));
}

}  // namespace
}  // namespace gimbal
