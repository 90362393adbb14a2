// Case C11: what the buffers of a call may share, and what they may not.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

constexpr int32_t kRanks = 4;
constexpr size_t kMaximumCount = size_t{kSanitized ? 1 : 4} << 20;
// Bytes; from one to more than any staging buffer.
constexpr size_t kCounts[] = {1, 8, 1000, 65537, kMaximumCount};

// Differs by rank and place; sums over 4 ranks wrap.
uint8_t input_at(int32_t rank, size_t place) { return static_cast<uint8_t>(place * 31 + static_cast<size_t>(rank) * 101); }

size_t count_wrong_sums(std::span<const uint8_t> sums) {
  size_t wrong = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    uint8_t expected = 0;
    for (int32_t rank = 0; rank < kRanks; ++rank) expected = static_cast<uint8_t>(expected + input_at(rank, i));
    wrong += sums[i] == expected ? 0 : 1;
  }
  return wrong;
}

void fill_input(std::span<uint8_t> input, int32_t rank) {
  for (size_t i = 0; i < input.size(); ++i) input[i] = input_at(rank, i);
}

size_t count_changed_inputs(std::span<const uint8_t> input, int32_t rank) {
  size_t changed = 0;
  for (size_t i = 0; i < input.size(); ++i) changed += input[i] == input_at(rank, i) ? 0 : 1;
  return changed;
}

class Aliasing : public ScenarioTest {};

TEST_P(Aliasing, InPlaceIsExact) {
  run_ranks(GetParam().ranks, kRanks, [&](const RankContext& context) {
    Communicator communicator(context, GetParam().algorithm);
    Buffer buffer(communicator, GetParam().memory, kMaximumCount);
    for (const size_t count : kCounts) {
      const auto values = buffer.place<uint8_t>(count);
      fill_input(values, context.rank);
      communicator.all_reduce(values.data(), values.data(), count, GIMBAL_UINT8, GIMBAL_SUM);
      EXPECT_EQ(count_wrong_sums(values), 0U) << "of " << count;
      EXPECT_TRUE(buffer.guards_intact()) << "count " << count;
    }
  });
}

TEST_P(Aliasing, OutOfPlaceLeavesTheInputAlone) {
  run_ranks(GetParam().ranks, kRanks, [&](const RankContext& context) {
    Communicator communicator(context, GetParam().algorithm);
    Buffer send(communicator, GetParam().memory, kMaximumCount);
    Buffer recv(communicator, GetParam().memory, kMaximumCount);
    for (const size_t count : kCounts) {
      const auto input = send.place<uint8_t>(count);
      const auto output = recv.place<uint8_t>(count);
      fill_input(input, context.rank);
      communicator.all_reduce(input.data(), output.data(), count, GIMBAL_UINT8, GIMBAL_SUM);
      EXPECT_EQ(count_wrong_sums(output), 0U) << "of " << count;
      EXPECT_EQ(count_changed_inputs(input, context.rank), 0U) << "of " << count;
      EXPECT_TRUE(send.guards_intact() && recv.guards_intact()) << "count " << count;
    }
  });
}

TEST_P(Aliasing, PartialOverlapIsAnErrorThatTouchesNothing) {
  run_ranks(GetParam().ranks, kRanks, [&](const RankContext& context) {
    Communicator communicator(context, GetParam().algorithm);
    Buffer buffer(communicator, GetParam().memory, kMaximumCount);
    for (const size_t count : {size_t{8}, size_t{65537}}) {
      const auto values = buffer.place<uint8_t>(count + 1);
      fill_input(values, context.rank);
      uint8_t* const front = values.data();
      for (const auto& [send, recv] : {std::pair(front, front + 1), std::pair(front + 1, front)}) {
        EXPECT_EQ(gimbal_all_reduce(send, recv, count, GIMBAL_UINT8, GIMBAL_SUM, communicator.get(), nullptr),
                  GIMBAL_INVALID_ARGUMENT);
        EXPECT_THAT(gimbal_last_error(), testing::HasSubstr("overlap"));
      }
      EXPECT_EQ(count_changed_inputs(values, context.rank), 0U);
    }
    uint8_t one = 1;
    communicator.all_reduce(&one, &one, 1, GIMBAL_UINT8, GIMBAL_SUM);
    EXPECT_EQ(one, kRanks) << "the communicator serves the next call";
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Aliasing, testing::ValuesIn(all_scenarios()), scenario_test_name);

// An input whose pages cannot be written. Zero-copy memory is shared and stays writable, so this is about ordinary memory.
class ReadOnlyInput : public ScenarioTest {};

TEST_P(ReadOnlyInput, IsReduced) {
  run_ranks(GetParam().ranks, kRanks, [&](const RankContext& context) {
    Communicator communicator(context, GetParam().algorithm);
    void* pages = mmap(nullptr, kMaximumCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    const std::span<uint8_t> input(static_cast<uint8_t*>(pages), kMaximumCount);
    fill_input(input, context.rank);
    ASSERT_EQ(mprotect(pages, kMaximumCount, PROT_READ), 0);
    std::vector<uint8_t> output(kMaximumCount);
    for (const size_t count : kCounts) {
      communicator.all_reduce(input.data(), output.data(), count, GIMBAL_UINT8, GIMBAL_SUM);
      EXPECT_EQ(count_wrong_sums(std::span(output).first(count)), 0U) << "of " << count;
    }
    munmap(pages, kMaximumCount);
  });
}

std::vector<Scenario> ordinary_scenarios() {
  std::vector<Scenario> scenarios = all_scenarios();
  std::erase_if(scenarios, [](const Scenario& scenario) { return scenario.memory == MemoryKind::kRegistered; });
  return scenarios;
}

INSTANTIATE_TEST_SUITE_P(Cases, ReadOnlyInput, testing::ValuesIn(ordinary_scenarios()), scenario_test_name);

}  // namespace
}  // namespace gimbal::test
