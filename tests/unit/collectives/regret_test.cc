#include "collectives/regret.h"

#include <gtest/gtest.h>

namespace gimbal {
namespace {

// Recorded on two CPUs with 8 ranks, all_reduce, us; the third size has a bad choice planted.
std::vector<Timing> recorded() {
  return {{"8", "direct", 9.7, true},       {"8", "ring", 37.7, false},     {"8", "tree", 32.3, false},
          {"4096", "direct", 11.6, true},   {"4096", "ring", 70.2, false},  {"4096", "tree", 41.8, false},
          {"32768", "direct", 38.4, false}, {"32768", "ring", 90.8, true},  {"32768", "tree", 72.5, false},
          {"262144", "direct", 114, true},  {"262144", "ring", 196, false}, {"262144", "tree", 193, false},
          {"2097152", "direct", 760, true}, {"2097152", "ring", 745, false}};
}

TEST(Regret, FindsThePlantedBadChoice) {
  const Regret regret = find_regret(recorded());
  ASSERT_EQ(regret.subjects.size(), 5U);
  EXPECT_NEAR(regret.worst, 90.8 / 38.4, 1e-9);
  EXPECT_EQ(regret.subjects[2].subject, "32768");
  EXPECT_EQ(regret.subjects[2].chosen, "ring");
  EXPECT_EQ(regret.subjects[2].best, "direct");
}

TEST(Regret, OfGoodChoicesIsOne) {
  std::vector<Timing> timings = recorded();
  timings[6].is_chosen = true;
  timings[7].is_chosen = false;
  const Regret regret = find_regret(timings);
  EXPECT_EQ(regret.median, 1);
  EXPECT_NEAR(regret.worst, 760.0 / 745, 1e-9);
}

TEST(Regret, LeavesOutWhatHasNoChoiceOrNoTime) {
  const Regret regret = find_regret({{"8", "ring", 5, false}, {"16", "ring", 0, true}});
  EXPECT_TRUE(regret.subjects.empty());
  EXPECT_EQ(regret.median, 1);
}

}  // namespace
}  // namespace gimbal
