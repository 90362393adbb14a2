// Every registered algorithm, run by executors of all ranks over a loopback mesh.
#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "tests/unit/runtime/collective_case.h"

namespace gimbal::test {
namespace {

const std::vector<Rank> kSizes = {1, 2, 3, 4, 5, 7, 8, 13, 16};

struct AlgorithmOnRanks {
  const Algorithm* algorithm;
  Rank nranks;
};

std::vector<AlgorithmOnRanks> all_algorithms_on(const std::vector<Rank>& sizes) {
  std::vector<AlgorithmOnRanks> result;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Rank nranks : sizes) {
      CollectiveCase c;
      c.algorithm = &algorithm;
      c.nranks = nranks;
      if (admits(algorithm, c.spec()).empty()) result.push_back({&algorithm, nranks});
    }
  }
  return result;
}

std::string test_name(const ::testing::TestParamInfo<AlgorithmOnRanks>& info) {
  std::string name(collective_name(info.param.algorithm->collective));
  name += "_" + std::string(info.param.algorithm->name) + "_" + std::to_string(info.param.nranks);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Sums and products of up to 16 of these are exact in every accumulator, and in range of every type.
double small_integer(Rank rank, size_t index) {
  return static_cast<double>((static_cast<size_t>(rank) * 7 + index * 3) % 4 + 1);
}
double mostly_one(Rank rank, size_t index) { return (static_cast<size_t>(rank) + index) % 5 == 0 ? 2 : 1; }

class EveryPlan : public ::testing::TestWithParam<AlgorithmOnRanks> {
 protected:
  [[nodiscard]] CollectiveCase base_case(size_t count) const {
    CollectiveCase c;
    c.algorithm = GetParam().algorithm;
    c.nranks = GetParam().nranks;
    c.count = count;
    c.root = (c.nranks - 1) / 2;
    return c;
  }
};

TEST_P(EveryPlan, IsExactForEveryCountWithSmallSlicesAndAWindowOfTwo) {
  const auto n = static_cast<size_t>(GetParam().nranks);
  for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, n - 1, n, n + 1, size_t{1000}}) {
    EXPECT_EQ(find_fault(base_case(count), small_integer), "");
  }
}

TEST_P(EveryPlan, IsExactForALargeCountWithLargeSlices) {
  CollectiveCase c = base_case(10007);
  c.slice_bytes = 4096;
  c.window = 4;
  EXPECT_EQ(find_fault(c, small_integer), "");
}

TEST_P(EveryPlan, IsExactWhenRunsOfChunksAreLongerThanTheWindow) {
  CollectiveCase c = base_case(16 * static_cast<size_t>(GetParam().nranks));  // a chunk is one slice
  EXPECT_EQ(find_fault(c, small_integer), "");
}

TEST_P(EveryPlan, IsExactOverSeveralChannels) {
  for (const uint8_t channels : {uint8_t{2}, uint8_t{3}}) {
    CollectiveCase c = base_case(301);
    c.channels = channels;
    EXPECT_EQ(find_fault(c, small_integer), "");
  }
}

TEST_P(EveryPlan, IsExactWhenRanksProgressInARandomOrder) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    CollectiveCase c = base_case(301);
    c.channels = 2;
    c.seed = seed;
    EXPECT_EQ(find_fault(c, small_integer), "");
  }
}

TEST_P(EveryPlan, NeedsNoWindowWhenItIsNotFused) {
  CollectiveCase c = base_case(301);
  c.fusion = Fusion::kNone;
  c.window = 1;
  EXPECT_EQ(find_fault(c, small_integer), "");
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPlan, ::testing::ValuesIn(all_algorithms_on(kSizes)), test_name);

class EveryPlanInPlace : public EveryPlan {};

TEST_P(EveryPlanInPlace, IsExact) {
  for (const size_t count : {size_t{1}, size_t{7}, size_t{500}}) {
    CollectiveCase c = base_case(count);
    c.in_place = true;
    EXPECT_EQ(find_fault(c, small_integer), "");
    c.seed = 1;
    c.channels = 2;
    EXPECT_EQ(find_fault(c, small_integer), "");
  }
}

std::vector<AlgorithmOnRanks> algorithms_with_calls_in_place() {
  std::vector<AlgorithmOnRanks> result = all_algorithms_on(kSizes);
  std::erase_if(result, [](const AlgorithmOnRanks& a) { return a.algorithm->collective == Collective::kAllToAll; });
  return result;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPlanInPlace, ::testing::ValuesIn(algorithms_with_calls_in_place()), test_name);

class EveryTypeAndOperation : public EveryPlan {};

TEST_P(EveryTypeAndOperation, IsRoundedOnce) {
  for (int type = 0; type < kPublicDTypeCount; ++type) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      CollectiveCase c = base_case(37);
      c.dtype = static_cast<DType>(type);
      c.op = static_cast<ReduceOp>(op);
      if (!is_supported(c.dtype, c.op)) continue;
      const bool multiplies = c.op == ReduceOp::kProd;
      EXPECT_EQ(find_fault(c, multiplies ? mostly_one : small_integer), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryTypeAndOperation, ::testing::ValuesIn(all_algorithms_on({2, 5})), test_name);

}  // namespace
}  // namespace gimbal::test
