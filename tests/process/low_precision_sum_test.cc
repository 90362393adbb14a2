// Case C05: sums of 16-bit types are accumulated in float32 and rounded once, whatever way they take.
#include <gmock/gmock.h>

#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

constexpr int32_t kRanks = 8;
constexpr size_t kCounts[] = {1, 4096};

// One rank holds `large`, seven hold `one`. Added to `large` in its own type each one would be lost.
struct SmallAddends {
  gimbal_dtype_t dtype;
  uint16_t large;
  uint16_t one;
  uint16_t rounded_sum;
};
constexpr SmallAddends kSums[] = {
    {GIMBAL_BFLOAT16, 0x4380, 0x3F80, 0x4384},  // 256 + 7 = 263, a tie between 262 and 264: even is 264
    {GIMBAL_FLOAT16, 0x6800, 0x3C00, 0x6804},   // 2048 + 7 = 2055, a tie between 2054 and 2056: even is 2056
};

class LowPrecisionSum : public ScenarioTest {};

TEST_P(LowPrecisionSum, KeepsSmallAddendsWhicheverRankHoldsTheLargeOne) {
  run_ranks(GetParam().ranks, kRanks, [&](const RankContext& context) {
    Communicator communicator(context, GetParam().algorithm);
    Buffer send(communicator, GetParam().memory, kCounts[1] * sizeof(uint16_t));
    Buffer recv(communicator, GetParam().memory, kCounts[1] * sizeof(uint16_t));
    for (const SmallAddends& sum : kSums) {
      for (int32_t holder = 0; holder < kRanks; ++holder) {
        for (const size_t count : kCounts) {
          const auto input = send.place<uint16_t>(count);
          const auto output = recv.place<uint16_t>(count);
          std::fill(input.begin(), input.end(), context.rank == holder ? sum.large : sum.one);
          communicator.all_reduce(input.data(), output.data(), count, sum.dtype, GIMBAL_SUM);
          EXPECT_THAT(output, testing::Each(sum.rounded_sum)) << "large value on rank " << holder;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, LowPrecisionSum, testing::ValuesIn(all_scenarios()), scenario_test_name);

}  // namespace
}  // namespace gimbal::test
