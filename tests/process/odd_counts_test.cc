// Case C07: counts that no number of ranks divides, rank counts that no schedule likes.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

constexpr int32_t kMaximumRanks = 20;
constexpr int32_t kMaximumProductRanks = 10;  // 10! is exact in float32

struct Expected {
  gimbal_op_t op;
  float value;
  float tolerance;
};

// Rank r sends r + 1.
std::vector<Expected> expected_results(int32_t ranks) {
  const auto n = static_cast<float>(ranks);
  const float mean = (n + 1) / 2;
  std::vector<Expected> results = {{GIMBAL_SUM, n * (n + 1) / 2, 0},
                                   {GIMBAL_MIN, 1, 0},
                                   {GIMBAL_MAX, n, 0},
                                   {GIMBAL_AVG, mean, 2 * (std::nextafter(mean, kMaximumRanks * 2.0F) - mean)}};
  if (ranks <= kMaximumProductRanks) {
    float factorial = 1;
    for (float factor = 2; factor <= n; ++factor) factorial *= factor;
    results.push_back({GIMBAL_PROD, factorial, 0});
  }
  return results;
}

void expect_every_count_right(const Scenario& scenario, int32_t ranks) {
  run_ranks(scenario.ranks, ranks, [&](const RankContext& context) {
    const size_t maximum_count = 3 * static_cast<size_t>(ranks) + 2;
    Communicator communicator(context, scenario.algorithm);
    Buffer send(communicator, scenario.memory, maximum_count * sizeof(float));
    Buffer recv(communicator, scenario.memory, maximum_count * sizeof(float));
    for (size_t count = 1; count <= maximum_count; ++count) {
      for (const Expected& expected : expected_results(ranks)) {
        const auto input = send.place<float>(count);
        const auto output = recv.place<float>(count);
        std::fill(input.begin(), input.end(), static_cast<float>(context.rank + 1));
        std::fill(output.begin(), output.end(), std::numeric_limits<float>::quiet_NaN());
        communicator.all_reduce(input.data(), output.data(), count, GIMBAL_FLOAT32, expected.op);
        const auto is_right = [&](float value) { return std::abs(value - expected.value) <= expected.tolerance; };
        ASSERT_TRUE(std::all_of(output.begin(), output.end(), is_right))
            << "operation " << expected.op << ", count " << count << ", " << ranks
            << " ranks: " << testing::PrintToString(output) << ", not " << expected.value;
        ASSERT_TRUE(send.guards_intact() && recv.guards_intact()) << "count " << count << ", " << ranks << " ranks";
      }
    }
  });
}

class OddCounts : public ScenarioTest {};

// The rank counts at which other libraries failed, the powers of two around them, and the smallest ones.
TEST_P(OddCounts, GiveExactResultsAndLeaveTheSurroundingsAlone) {
  for (const int32_t ranks : {1, 2, 3, 5, 8, 15, 18}) expect_every_count_right(GetParam(), ranks);
}

INSTANTIATE_TEST_SUITE_P(Cases, OddCounts, testing::ValuesIn(all_scenarios()), scenario_test_name);

class LongOddCounts : public ScenarioTest {};

TEST_P(LongOddCounts, GiveExactResultsForEveryNumberOfRanks) {
  for (int32_t ranks = 1; ranks <= kMaximumRanks; ++ranks) expect_every_count_right(GetParam(), ranks);
}

INSTANTIATE_TEST_SUITE_P(Cases, LongOddCounts, testing::ValuesIn(all_scenarios()), scenario_test_name);

}  // namespace
}  // namespace gimbal::test
