// gimbal_all_reduce_options: the sum and the mean of unequal weights; and the deterministic mode.
#include <gmock/gmock.h>

#include <random>

#include "tests/support/expect_ok.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kRanks = 3;

class Weights : public ScenarioTest {};

gimbal_status_t weighted(Communicator& communicator, const std::vector<float>& send, std::span<float> recv, double weight,
                         bool mean) {
  gimbal_reduce_options_t options = GIMBAL_REDUCE_OPTIONS_INIT;
  options.weight = weight;
  options.normalize = mean ? 1 : 0;
  return gimbal_all_reduce_options(send.data(), recv.data(), send.size(), GIMBAL_FLOAT32, GIMBAL_SUM, &options,
                                   communicator.get(), nullptr);
}

TEST_P(Weights, GiveTheSumAndTheMeanOfUnequalShares) {
  run_ranks(GetParam().ranks, kRanks, [](const RankContext& context) {
    Communicator communicator(context, GetParam().algorithm);
    Buffer memory(communicator, GetParam().memory, 300'000 * sizeof(float));
    // Weights 1, 2, 5 of values 8, 16, 24: sum 160, mean 20.
    constexpr double kWeights[] = {1, 2, 5};
    const double weight = kWeights[context.rank];
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{300'000}}) {
      const std::vector<float> send(count, 8.0F * static_cast<float>(context.rank + 1));
      const auto recv = memory.place<float>(count);
      expect_ok(weighted(communicator, send, recv, weight, false));
      EXPECT_TRUE(std::all_of(recv.begin(), recv.end(), [](float value) { return value == 160; })) << recv[0];
      expect_ok(weighted(communicator, send, recv, weight, true));
      EXPECT_TRUE(std::all_of(recv.begin(), recv.end(), [](float value) { return value == 20; })) << recv[0];
    }
  });
}

TEST_P(Weights, ThatSumToZeroHaveNoMeanAndLoseOnlyTheCall) {
  run_ranks(GetParam().ranks, kRanks, [](const RankContext& context) {
    Communicator communicator(context, GetParam().algorithm);
    constexpr double kWeights[] = {1, -3, 2};
    for (const size_t count : {size_t{1}, size_t{100'000}}) {
      const std::vector<float> send(count, 1);
      std::vector<float> recv(count, -1);
      EXPECT_EQ(weighted(communicator, send, recv, kWeights[context.rank], true), GIMBAL_INVALID_ARGUMENT);
      EXPECT_THAT(gimbal_last_error(), HasSubstr("sum to 0"));
      EXPECT_EQ(recv, std::vector<float>(count, -1));
      expect_ok(weighted(communicator, send, recv, context.rank, true), "the next call");
      EXPECT_EQ(recv, std::vector<float>(count, 1));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Weights, testing::ValuesIn(all_scenarios()), scenario_test_name);

class WeightArguments : public RanksTest {};

TEST_F(WeightArguments, AreForSumsOfFloatingTypes) {
  run_ranks(RankKind::kThreads, 2, [](const RankContext& context) {
    Communicator communicator(context);
    double value = 1;
    gimbal_reduce_options_t options = GIMBAL_REDUCE_OPTIONS_INIT;
    const auto call = [&](gimbal_dtype_t dtype, gimbal_op_t op) {
      return gimbal_all_reduce_options(&value, &value, 1, dtype, op, &options, communicator.get(), nullptr);
    };
    EXPECT_EQ(call(GIMBAL_INT32, GIMBAL_SUM), GIMBAL_UNSUPPORTED);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("floating"));
    EXPECT_EQ(call(GIMBAL_FLOAT64, GIMBAL_MAX), GIMBAL_UNSUPPORTED);
    options.normalize = 2;
    EXPECT_EQ(call(GIMBAL_FLOAT64, GIMBAL_SUM), GIMBAL_INVALID_ARGUMENT);
    options.normalize = 0;
    options.wire = 1;
    EXPECT_EQ(call(GIMBAL_FLOAT64, GIMBAL_SUM), GIMBAL_UNSUPPORTED);
    options.wire = 0;
    options.struct_bytes = 4;
    EXPECT_EQ(call(GIMBAL_FLOAT64, GIMBAL_SUM), GIMBAL_INVALID_ARGUMENT);
    expect_ok(gimbal_all_reduce_options(&value, &value, 1, GIMBAL_FLOAT64, GIMBAL_SUM, nullptr, communicator.get(), nullptr));
    EXPECT_EQ(value, 2);
  });
}

class Deterministic : public RanksTest, public testing::WithParamInterface<RankKind> {
 protected:
  void TearDown() override {
    unsetenv("GIMBAL_CHUNK_BYTES");
    RanksTest::TearDown();
  }
};

constexpr size_t kSumCount = 100'003;

// The bits of the sum of numbers of many magnitudes, in pieces of `piece` elements.
uint64_t hash_of_sum(Communicator& communicator, MemoryKind kind, size_t piece) {
  std::mt19937 random(17 + static_cast<uint32_t>(communicator.rank()));
  Buffer memory(communicator, kind, kSumCount * sizeof(float));
  const auto values = memory.place<float>(kSumCount);
  for (float& value : values) value = std::ldexp(static_cast<float>(random() % 1000) - 500, static_cast<int>(random() % 30));
  for (size_t begin = 0; begin < kSumCount; begin += piece) {
    const size_t count = std::min(piece, kSumCount - begin);
    communicator.all_reduce(values.data() + begin, values.data() + begin, count, GIMBAL_FLOAT32, GIMBAL_SUM);
  }
  return hash_bytes(std::as_bytes(values));
}

TEST_P(Deterministic, SumHasTheSameBitsWhateverTheWay) {
  constexpr int32_t kTreeRanks = 4;
  uint64_t expected = 0;
  run_ranks(RankKind::kThreads, kTreeRanks, [&](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.deterministic = 1;
    Communicator communicator(config);
    const uint64_t hash = hash_of_sum(communicator, MemoryKind::kOrdinary, kSumCount);
    if (context.rank == 0) expected = hash;
  });
  for (const char* chunk_bytes : {"", "4096", "123000"}) {
    ASSERT_EQ(setenv("GIMBAL_CHUNK_BYTES", chunk_bytes, 1), 0);
    for (const char* algorithm : {"all_reduce:direct", "all_reduce:halving_doubling"}) {
      run_ranks(GetParam(), kTreeRanks, [&](const RankContext& context) {
        gimbal_config_t config = rank_config(context);
        config.deterministic = 1;
        config.algorithm = algorithm;
        Communicator communicator(config);
        for (const MemoryKind kind : {MemoryKind::kOrdinary, MemoryKind::kRegistered}) {
          for (const size_t piece : {kSumCount, size_t{30'000}, size_t{999}}) {
            EXPECT_EQ(hash_of_sum(communicator, kind, piece), expected)
                << algorithm << ", chunks of \"" << chunk_bytes << "\", pieces of " << piece;
          }
        }
      });
    }
  }
}

TEST_P(Deterministic, ForcedRingIsRefusedWithTheReason) {
  run_ranks(GetParam(), kRanks, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.deterministic = 1;
    config.algorithm = "all_reduce:ring";
    gimbal_comm_t comm = nullptr;
    EXPECT_EQ(gimbal_comm_create(&config, &comm), GIMBAL_UNSUPPORTED);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("ring"), HasSubstr("order of additions")));
    EXPECT_EQ(comm, nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Deterministic, testing::ValuesIn(rank_kinds()), kind_test_name);

}  // namespace
}  // namespace gimbal::test
