#include "runtime/plan_cache.h"

#include <gtest/gtest.h>

namespace gimbal::test {
namespace {

PlanKey key(size_t count) {
  PlanKey result;
  result.algorithm = "ring";
  result.count = count;
  return result;
}

TEST(PlanCache, FindsWhatWasInserted) {
  PlanCache cache(2);
  const auto plan = std::make_shared<const Plan>();
  cache.insert(key(1), plan);
  EXPECT_EQ(cache.find(key(1)), plan);
  EXPECT_EQ(cache.find(key(2)), nullptr);
}

TEST(PlanCache, TellsKeysApartThatDifferInOneField) {
  PlanCache cache(8);
  cache.insert(key(1), std::make_shared<const Plan>());
  PlanKey other = key(1);
  other.algorithm = "tree";
  EXPECT_EQ(cache.find(other), nullptr);
  other = key(1);
  other.weighted = true;
  EXPECT_EQ(cache.find(other), nullptr);
}

TEST(PlanCache, ForgetsThePlanUsedLongestAgo) {
  PlanCache cache(2);
  cache.insert(key(1), std::make_shared<const Plan>());
  cache.insert(key(2), std::make_shared<const Plan>());
  ASSERT_NE(cache.find(key(1)), nullptr);

  cache.insert(key(3), std::make_shared<const Plan>());

  EXPECT_NE(cache.find(key(1)), nullptr);
  EXPECT_EQ(cache.find(key(2)), nullptr);
  EXPECT_EQ(cache.size(), 2U);
}

TEST(PlanCache, ReplacesAPlanOfTheSameKey) {
  PlanCache cache(2);
  cache.insert(key(1), std::make_shared<const Plan>());
  const auto plan = std::make_shared<const Plan>();

  cache.insert(key(1), plan);

  EXPECT_EQ(cache.find(key(1)), plan);
  EXPECT_EQ(cache.size(), 1U);
}

TEST(PlanCache, LeavesAPlanToItsHolderWhenItForgetsIt) {
  PlanCache cache(1);
  cache.insert(key(1), std::make_shared<const Plan>());
  const auto held = cache.find(key(1));

  cache.insert(key(2), std::make_shared<const Plan>());

  EXPECT_EQ(held->channels, 1U);
}

}  // namespace
}  // namespace gimbal::test
