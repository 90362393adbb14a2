// The interpreter kernel carries out every schedule as the CPU executor does, to the bit, and ends when it cannot.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "collectives/algorithm.h"
#include "tests/unit/cuda/device_world.h"

namespace gimbal::test {
namespace {

using device::DeviceError;
using device::Protocol;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr Rank kMostRanks = 4;
constexpr unsigned kThreads = 8;
#else
constexpr Rank kMostRanks = 8;
constexpr unsigned kThreads = 32;
#endif

double small_values(Rank rank, size_t index) { return static_cast<double>((static_cast<size_t>(rank) * 7 + index * 3) % 11); }

// Both executors' outputs, byte by byte; empty when they are equal.
std::string difference(const CollectiveCase& c, const DeviceOptions& options, const InputFunction& input = small_values) {
  const auto expected = run_case(c, input);
  if (!expected.ok()) return describe(c) + ": " + expected.status().message();
  DeviceWorld world(c, input, options);
  if (!world.run()) return describe(c) + ": CUDA refused";
  for (Rank r = 0; r < c.nranks; ++r) {
    const auto error = static_cast<uint32_t>(world.report(r).error());
    if (error != 0) return describe(c) + ": rank " + std::to_string(r) + " reports " + std::to_string(error);
    if (world.output(r) != (*expected)[static_cast<size_t>(r)]) return describe(c) + ": rank " + std::to_string(r) + " differs";
  }
  return {};
}

CollectiveCase all_reduce(const char* algorithm, Rank nranks, size_t count) {
  CollectiveCase c;
  c.algorithm = find_algorithm(Collective::kAllReduce, algorithm);
  c.nranks = nranks;
  c.count = count;
  return c;
}

class Interpreter : public testing::TestWithParam<Protocol> {
 protected:
  DeviceOptions options_{.protocol = GetParam(), .threads = kThreads};
};
INSTANTIATE_TEST_SUITE_P(Protocols, Interpreter, testing::Values(Protocol::kSimple, Protocol::kPackets),
                         [](const auto& parameter) { return parameter.param == Protocol::kSimple ? "Simple" : "Packets"; });

TEST_P(Interpreter, EveryAlgorithmGivesTheBytesOfTheCpuExecutor) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Rank nranks : {Rank{2}, Rank{3}, kMostRanks}) {
      CollectiveCase c;
      c.algorithm = &algorithm;
      c.nranks = nranks;
      c.count = 45;
      c.root = nranks - 1;
      c.channels = nranks == 3 ? 2 : 1;
      c.fusion = nranks == 2 ? Fusion::kNone : Fusion::kFused;
      if (!admits(algorithm, c.spec()).empty()) continue;
      ASSERT_EQ(difference(c, options_), "");
    }
  }
}

TEST_P(Interpreter, EveryTypeAndOperationGivesTheBytesOfTheCpuExecutor) {
  for (int dtype = 0; dtype < kPublicDTypeCount; ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      CollectiveCase c = all_reduce(op % 2 == 0 ? "ring" : "halving_doubling", 2 + op % 2 * 2, 37);
      c.dtype = static_cast<DType>(dtype);
      c.op = static_cast<ReduceOp>(op);
      if (!is_supported(c.dtype, c.op)) continue;
      c.in_place = dtype % 2 == 0;
      ASSERT_EQ(difference(c, options_), "");
    }
  }
}

TEST_P(Interpreter, ChunksOfManyWindowsAndSegmentsPassThroughFewSlots) {
  CollectiveCase c = all_reduce("ring", 3, 2000);
  c.window = 3;
  c.dtype = DType::kBfloat16;
  EXPECT_EQ(difference(c, options_), "");
  c.element_partials = true;
  EXPECT_EQ(difference(c, options_), "");
}

TEST_P(Interpreter, WeightsMultiplyTheInput) {
  CollectiveCase c = all_reduce("ring", 3, 50);
  c.weights = {0.5, 2, 3};
  c.divisor = 5.5;
  EXPECT_EQ(difference(c, options_), "");
}

TEST_P(Interpreter, MoreRanksThanTheTableOfNativesAreServed) {
  EXPECT_EQ(difference(all_reduce("ring", kMostRanks + 1, 100), options_), "");
}

TEST_P(Interpreter, ARankThatNeverLaunchesIsNamedAtTheDeadline) {
  const CollectiveCase c = all_reduce("ring", 3, 30);
  options_.absent = 1;
  options_.timeout_ns = 50'000'000;
  DeviceWorld world(c, small_values, options_);
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.report(2).error(), DeviceError::kTimeout);
  EXPECT_EQ(world.report(2).get().peer, 1);
}

TEST_P(Interpreter, ARankInAnotherOperationIsAMismatchThatNamesBothTags) {
  const CollectiveCase c = all_reduce("ring", 2, 30);
  options_.other_tag = 1;
  options_.timeout_ns = 2'000'000'000;
  DeviceWorld world(c, small_values, options_);
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.report(0).error(), DeviceError::kMismatch);
  EXPECT_EQ(world.report(0).get().peer, 1);
  EXPECT_EQ(world.report(0).get().received_tag, world.report(0).get().expected_tag + 1);
}

TEST_P(Interpreter, AbortEndsKernelsThatWait) {
  const CollectiveCase c = all_reduce("ring", 3, 30);
  options_.absent = 0;
  options_.aborts = true;
  DeviceWorld world(c, small_values, options_);
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.report(1).error(), DeviceError::kAborted);
}

}  // namespace
}  // namespace gimbal::test
