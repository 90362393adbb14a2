// Case C01: min and max give the same answer whichever rank holds the NaN, the infinity or the negative zero.
#include <gmock/gmock.h>

#include <array>

#include "tests/support/float_format.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

constexpr int32_t kRanks = 4;
// One element, a vector and a tail, and more than a small-message slot.
constexpr size_t kCounts[] = {1, 67, 4099};
constexpr size_t kMaximumBytes = 4099 * sizeof(double);

// The values of the four ranks, as bits.
using Values = std::array<uint64_t, kRanks>;

class MinMax : public ScenarioTest {};

// All-reduces `values` with every count and expects every element to satisfy `right`.
struct Reduction {
  Communicator& communicator;
  Buffer& send;
  Buffer& recv;

  template <typename Right>
  void expect(const FloatFormat& format, const Values& values, gimbal_op_t op, const Right& right) {
    for (const size_t count : kCounts) {
      const auto input = send.place<std::byte>(count * format.bytes);
      const auto output = recv.place<std::byte>(count * format.bytes);
      const uint64_t own = values[static_cast<size_t>(communicator.rank())];
      for (size_t i = 0; i < count; ++i) format.store(&input[i * format.bytes], own);
      communicator.all_reduce(input.data(), output.data(), count, format.dtype, op);
      size_t wrong = 0;
      for (size_t i = 0; i < count; ++i) wrong += right(format.load(&output[i * format.bytes])) ? 0 : 1;
      EXPECT_EQ(wrong, 0U) << format.name << (op == GIMBAL_MIN ? " min" : " max") << " of " << count << " elements, first 0x"
                           << std::hex << format.load(output.data());
      EXPECT_TRUE(communicator.equal_on_all_ranks(output)) << format.name << ", " << count << " elements";
    }
  }
};

// Runs `body(reduction, format, holder)` for every type and every rank as the holder of the special value.
template <typename Body>
void for_every_holder(const Scenario& scenario, const Body& body) {
  run_ranks(scenario.ranks, kRanks, [&](const RankContext& context) {
    Communicator communicator(context, scenario.algorithm);
    Buffer send(communicator, scenario.memory, kMaximumBytes);
    Buffer recv(communicator, scenario.memory, kMaximumBytes);
    Reduction reduction{communicator, send, recv};
    for (const FloatFormat& format : kFloatFormats) {
      for (size_t holder = 0; holder < kRanks; ++holder) body(reduction, format, holder);
    }
  });
}

TEST_P(MinMax, OfANanAreNanWhicheverRankHoldsIt) {
  for_every_holder(GetParam(), [](Reduction& reduction, const FloatFormat& format, size_t holder) {
    const std::array<uint64_t, 3> numbers = {format.one, format.three, format.four};
    Values values{};
    for (size_t rank = 0, next = 0; rank < kRanks; ++rank) values[rank] = rank == holder ? format.nan : numbers[next++];
    const auto is_nan = [&](uint64_t bits) { return format.is_nan(bits); };
    reduction.expect(format, values, GIMBAL_MIN, is_nan);
    reduction.expect(format, values, GIMBAL_MAX, is_nan);
  });
}

TEST_P(MinMax, OfInfinitiesAreTheInfinities) {
  for_every_holder(GetParam(), [](Reduction& reduction, const FloatFormat& format, size_t holder) {
    Values values{format.one, format.three, format.four, format.one};
    values[holder] = format.largest;
    values[(holder + 1) % kRanks] = format.largest | format.sign;
    reduction.expect(format, values, GIMBAL_MAX, [&](uint64_t bits) { return bits == format.largest; });
    reduction.expect(format, values, GIMBAL_MIN, [&](uint64_t bits) { return bits == (format.largest | format.sign); });
  });
}

TEST_P(MinMax, OrderNegativeZeroBelowZero) {
  for_every_holder(GetParam(), [](Reduction& reduction, const FloatFormat& format, size_t holder) {
    Values one_negative{};
    one_negative[holder] = format.sign;
    reduction.expect(format, one_negative, GIMBAL_MIN, [&](uint64_t bits) { return bits == format.sign; });
    reduction.expect(format, one_negative, GIMBAL_MAX, [](uint64_t bits) { return bits == 0; });
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, MinMax, testing::ValuesIn(all_scenarios()), scenario_test_name);

}  // namespace
}  // namespace gimbal::test
