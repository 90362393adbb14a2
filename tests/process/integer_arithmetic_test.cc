// Case C02: integer averages truncate a wide sum toward zero, integer sums wrap.
#include <gmock/gmock.h>

#include <array>
#include <limits>

#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

constexpr int32_t kRanks = 2;
constexpr size_t kCount = 67;  // whole vectors and a tail

template <typename T>
constexpr gimbal_dtype_t kDType = GIMBAL_INT8;
template <>
constexpr gimbal_dtype_t kDType<uint8_t> = GIMBAL_UINT8;
template <>
constexpr gimbal_dtype_t kDType<int32_t> = GIMBAL_INT32;
template <>
constexpr gimbal_dtype_t kDType<uint32_t> = GIMBAL_UINT32;
template <>
constexpr gimbal_dtype_t kDType<int64_t> = GIMBAL_INT64;
template <>
constexpr gimbal_dtype_t kDType<uint64_t> = GIMBAL_UINT64;

template <typename T>
constexpr T kMax = std::numeric_limits<T>::max();
template <typename T>
constexpr T kMin = std::numeric_limits<T>::min();

class Integers : public ScenarioTest {
 protected:
  // Expects op over the two ranks' values to be `expected` in every element on both ranks.
  template <typename T>
  static void expect(Communicator& communicator, MemoryKind memory, gimbal_op_t op, const std::array<T, 2>& values,
                     T expected) {
    Buffer send(communicator, memory, kCount * sizeof(T));
    Buffer recv(communicator, memory, kCount * sizeof(T));
    const auto input = send.place<T>(kCount);
    const auto output = recv.place<T>(kCount);
    std::fill(input.begin(), input.end(), values[static_cast<size_t>(communicator.rank())]);
    communicator.all_reduce(input.data(), output.data(), kCount, kDType<T>, op);
    EXPECT_THAT(output, testing::Each(expected)) << "of " << +values[0] << " and " << +values[1];
  }

  template <typename Body>
  void run(const Body& body) {
    run_ranks(GetParam().ranks, kRanks, [&](const RankContext& context) {
      Communicator communicator(context, GetParam().algorithm);
      body(communicator, GetParam().memory);
    });
  }
};

TEST_P(Integers, AverageOfSmallNumbersTruncatesTowardZero) {
  run([](Communicator& communicator, MemoryKind memory) {
    expect<int32_t>(communicator, memory, GIMBAL_AVG, {3, 4}, 3);
    expect<int32_t>(communicator, memory, GIMBAL_AVG, {-3, -4}, -3);
    expect<int8_t>(communicator, memory, GIMBAL_AVG, {-3, -4}, -3);
    expect<int64_t>(communicator, memory, GIMBAL_AVG, {-3, -4}, -3);
    expect<uint8_t>(communicator, memory, GIMBAL_AVG, {3, 4}, 3);
  });
}

TEST_P(Integers, AverageOfTheLargestNumbersIsTheLargestNumber) {
  run([](Communicator& communicator, MemoryKind memory) {
    expect<int32_t>(communicator, memory, GIMBAL_AVG, {kMax<int32_t>, kMax<int32_t>}, kMax<int32_t>);
    expect<int32_t>(communicator, memory, GIMBAL_AVG, {kMin<int32_t>, kMin<int32_t>}, kMin<int32_t>);
    expect<uint32_t>(communicator, memory, GIMBAL_AVG, {kMax<uint32_t>, kMax<uint32_t>}, kMax<uint32_t>);
    expect<int64_t>(communicator, memory, GIMBAL_AVG, {kMax<int64_t>, kMax<int64_t>}, kMax<int64_t>);
    expect<int64_t>(communicator, memory, GIMBAL_AVG, {kMin<int64_t>, kMin<int64_t>}, kMin<int64_t>);
    expect<uint64_t>(communicator, memory, GIMBAL_AVG, {kMax<uint64_t>, kMax<uint64_t>}, kMax<uint64_t>);
    expect<int8_t>(communicator, memory, GIMBAL_AVG, {127, 127}, 127);
    expect<uint8_t>(communicator, memory, GIMBAL_AVG, {255, 255}, 255);
  });
}

TEST_P(Integers, SumAndProductWrap) {
  run([](Communicator& communicator, MemoryKind memory) {
    expect<int8_t>(communicator, memory, GIMBAL_SUM, {120, 100}, -36);
    expect<uint8_t>(communicator, memory, GIMBAL_SUM, {200, 100}, 44);
    expect<int32_t>(communicator, memory, GIMBAL_SUM, {kMax<int32_t>, 1}, kMin<int32_t>);
    expect<int64_t>(communicator, memory, GIMBAL_SUM, {kMax<int64_t>, 1}, kMin<int64_t>);
    expect<int32_t>(communicator, memory, GIMBAL_PROD, {kMax<int32_t>, 2}, -2);
    expect<int64_t>(communicator, memory, GIMBAL_PROD, {kMin<int64_t>, -1}, kMin<int64_t>);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Integers, testing::ValuesIn(all_scenarios()), scenario_test_name);

}  // namespace
}  // namespace gimbal::test
