// What every reducing algorithm must give whatever its order of additions: cases where rounding, NaN, signed zero or overflow
// would betray a partial result in the wrong type.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/reduce.h"
#include "tests/unit/runtime/collective_case.h"

namespace gimbal::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class EveryAllReduce : public ::testing::TestWithParam<const Algorithm*> {
 protected:
  [[nodiscard]] CollectiveCase all_reduce(Rank nranks, size_t count, DType dtype, ReduceOp op) const {
    CollectiveCase c;
    c.algorithm = GetParam();
    c.nranks = nranks;
    c.count = count;
    c.dtype = dtype;
    c.op = op;
    c.slice_bytes = 1024;
    return c;
  }
};

std::vector<std::vector<std::byte>> outputs_of(const CollectiveCase& c, const InputFunction& input) {
  auto outputs = run_case(c, input);
  EXPECT_TRUE(outputs.ok()) << describe(c) << ": " << outputs.status().message();
  return outputs.ok() ? *std::move(outputs) : std::vector<std::vector<std::byte>>();
}

// Every element of every rank has this value; NaN equals NaN, and zeros have signs.
void expect_everywhere(const CollectiveCase& c, const InputFunction& input, double wanted) {
  for (const auto& output : outputs_of(c, input)) {
    for (const double value : unpack(c.dtype, output)) {
      const bool equal =
          std::isnan(wanted) ? std::isnan(value) : value == wanted && std::signbit(value) == std::signbit(wanted);
      ASSERT_TRUE(equal) << describe(c) << ": " << value << ", expected " << wanted;
    }
  }
}

// Values of about one, with all bits of the mantissa in use and every order of additions rounding differently.
double noise(Rank rank, size_t index) {
  uint64_t bits = (static_cast<uint64_t>(rank) << 32) + index + 0x9e3779b97f4a7c15;  // splitmix64
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return std::ldexp(static_cast<double>((bits ^ (bits >> 31)) >> 11), -52) - 0.7;
}

TEST_P(EveryAllReduce, PropagatesNanThroughMinAndMaxWhicheverRankHoldsIt) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16}) {
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      for (Rank holder = 0; holder < 4; ++holder) {
        expect_everywhere(
            all_reduce(4, 1, dtype, op), [&](Rank r, size_t) { return r == holder ? kNan : r + 1.0; }, kNan);
      }
    }
  }
}

TEST_P(EveryAllReduce, OrdersInfinitiesAndSignedZeros) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16}) {
    for (Rank holder = 0; holder < 4; ++holder) {
      const auto infinity = [&](Rank r, size_t) { return r == holder ? kInfinity : -kInfinity; };
      expect_everywhere(all_reduce(4, 1, dtype, ReduceOp::kMax), infinity, kInfinity);
      expect_everywhere(all_reduce(4, 1, dtype, ReduceOp::kMin), infinity, -kInfinity);
      const auto zero = [&](Rank r, size_t) { return r == holder ? -0.0 : 0.0; };
      expect_everywhere(all_reduce(4, 1, dtype, ReduceOp::kMax), zero, 0.0);
      expect_everywhere(all_reduce(4, 1, dtype, ReduceOp::kMin), zero, -0.0);
    }
  }
}

TEST_P(EveryAllReduce, AveragesIntegersFromWideSumsTowardZero) {
  const auto both = [](double a, double b) { return [=](Rank r, size_t) { return r == 0 ? a : b; }; };
  const CollectiveCase c = all_reduce(2, 3, DType::kInt32, ReduceOp::kAvg);
  expect_everywhere(c, both(3, 4), 3);
  expect_everywhere(c, both(-3, -4), -3);
  expect_everywhere(c, both(2147483647, 2147483647), 2147483647);
}

TEST_P(EveryAllReduce, WrapsIntegerSums) {
  const auto both = [](double a, double b) { return [=](Rank r, size_t) { return r == 0 ? a : b; }; };
  expect_everywhere(all_reduce(2, 3, DType::kInt8, ReduceOp::kSum), both(120, 100), -36);
  expect_everywhere(all_reduce(2, 3, DType::kUint8, ReduceOp::kSum), both(200, 100), 44);
}

TEST_P(EveryAllReduce, RoundsABfloat16SumOnceWhicheverRankHoldsTheLargeValue) {
  for (const size_t count : {size_t{1}, size_t{4096}}) {
    for (Rank holder = 0; holder < 8; ++holder) {
      const auto input = [&](Rank r, size_t) { return r == holder ? 256.0 : 1.0; };
      expect_everywhere(all_reduce(8, count, DType::kBfloat16, ReduceOp::kSum), input, 264);  // 263, a tie, to even
    }
  }
}

TEST_P(EveryAllReduce, GivesAllRanksTheSameBitsInEveryOrderOfProgress) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    for (const Rank nranks : {3, 4, 5, 7, 8}) {
      CollectiveCase c = all_reduce(nranks, 1007, dtype, ReduceOp::kSum);
      const auto first = outputs_of(c, noise).front();
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        c.seed = seed;
        for (const auto& output : outputs_of(c, noise)) ASSERT_EQ(output, first) << describe(c);
      }
    }
  }
}

TEST_P(EveryAllReduce, GivesAllRanksTheSameBitsWhenPartialsTravelAsElements) {
  for (const Rank nranks : {3, 8}) {
    CollectiveCase c = all_reduce(nranks, 107, DType::kBfloat16, ReduceOp::kSum);
    c.element_partials = true;
    const auto outputs = outputs_of(c, noise);
    for (const auto& output : outputs) EXPECT_EQ(output, outputs.front()) << describe(c);
  }
}

TEST_P(EveryAllReduce, AddsFractionsInFloat64ToTheirLastBits) {
  const CollectiveCase c = all_reduce(4, 2, DType::kFloat64, ReduceOp::kSum);
  const auto outputs = outputs_of(c, [](Rank r, size_t i) { return i == 0 ? r : 1.0 / (r == 0 ? 1 : r); });
  for (const auto& output : outputs) EXPECT_NEAR(unpack(c.dtype, output)[1], 1 + 11.0 / 6, 1e-15);
}

TEST_P(EveryAllReduce, WeighsEachRanksInputAndDividesByTheSumOfTheWeights) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBfloat16}) {
    for (const Rank nranks : {1, 2, 5}) {
      CollectiveCase c = all_reduce(nranks, 37, dtype, ReduceOp::kSum);
      double sum = 0;
      c.divisor = 0;
      for (Rank r = 0; r < nranks; ++r) {
        c.weights.push_back(r + 1);
        c.divisor += r + 1;
        sum += (r + 1.0) * 2 * r;
      }
      const auto input = [](Rank r, size_t) { return 2.0 * r; };
      const auto as_float = static_cast<double>(static_cast<float>(sum) / static_cast<float>(c.divisor));
      expect_everywhere(c, input, round_to(dtype, dtype == DType::kFloat64 ? sum / c.divisor : as_float));
    }
  }
}

TEST_P(EveryAllReduce, GivesAllRanksTheSameBitsOfAWeightedMean) {
  for (const Rank nranks : {3, 8}) {
    CollectiveCase c = all_reduce(nranks, 107, DType::kFloat32, ReduceOp::kSum);
    for (Rank r = 0; r < nranks; ++r) c.weights.push_back(0.1 + r);
    c.divisor = 3.7;
    const auto outputs = outputs_of(c, noise);
    for (const auto& output : outputs) EXPECT_EQ(output, outputs.front()) << describe(c);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryAllReduce, ::testing::ValuesIn(algorithms_for(Collective::kAllReduce)),
                         [](const auto& algorithm) { return std::string(algorithm.param->name); });

// The bits of the left-complete tree over ranks, by the kernel.
std::vector<std::byte> tree_sum(const CollectiveCase& c, const InputFunction& input) {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<ReduceSource> sources;
  for (Rank r = 0; r < c.nranks; ++r) {
    std::vector<double> values(c.count);
    for (size_t i = 0; i < c.count; ++i) values[i] = input(r, i);
    inputs.push_back(pack(c.dtype, values));
  }
  for (const auto& bytes : inputs) sources.push_back({bytes.data(), Form::kElement});
  std::vector<std::byte> result(c.count * dtype_size(c.dtype));
  void* const destination = result.data();
  ReduceArguments arguments;
  arguments.sources = sources;
  arguments.destinations = {&destination, 1};
  arguments.count = c.count;
  arguments.order = SumOrder::kTree;
  find_reduce(c.dtype, c.op)(arguments);
  return result;
}

TEST(HalvingDoubling, HasTheBitsOfTheTreeForEverySizeChannelCountAndSlice) {
  for (const Rank nranks : {2, 3, 4, 5, 7, 8, 13, 16}) {
    for (const size_t count : {size_t{1}, size_t{100}, size_t{2003}}) {
      for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
        CollectiveCase c;
        c.algorithm = find_algorithm(Collective::kAllReduce, "halving_doubling");
        c.nranks = nranks;
        c.count = count;
        c.dtype = dtype;
        const auto wanted = tree_sum(c, noise);
        for (c.channels = 1; c.channels <= 3; ++c.channels) {
          for (const size_t slice_bytes : {size_t{64}, size_t{4096}}) {
            c.slice_bytes = slice_bytes;
            for (const auto& output : outputs_of(c, noise)) ASSERT_EQ(output, wanted) << describe(c);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace gimbal::test
