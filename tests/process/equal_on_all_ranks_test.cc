// Case C06: a sum has the same bits on all ranks, in every repetition, and is the sum.
#include <gmock/gmock.h>

#include <optional>
#include <random>
#include <set>

#include "tests/support/float_format.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

constexpr int32_t kRankCounts[] = {3, 4, 5, 7, 8};
constexpr size_t kCount = 10007;
constexpr size_t kRepetitions = kSanitized ? 5 : 50;

class Sum : public ScenarioTest {};

TEST_P(Sum, OfRandomNumbersHasTheSameBitsOnAllRanksAndInAllRepetitions) {
  for (const int32_t ranks : kRankCounts) {
    run_ranks(GetParam().ranks, ranks, [&](const RankContext& context) {
      Communicator communicator(context, GetParam().algorithm);
      Buffer send(communicator, GetParam().memory, kCount * sizeof(float));
      Buffer recv(communicator, GetParam().memory, kCount * sizeof(float));
      for (const FloatFormat& format : kFloatFormats) {
        if (format.bytes > sizeof(float)) continue;
        const auto input = send.place<std::byte>(kCount * format.bytes);
        const auto output = recv.place<std::byte>(kCount * format.bytes);
        std::mt19937_64 generator(static_cast<uint64_t>(context.rank));
        for (size_t i = 0; i < kCount; ++i) format.store(&input[i * format.bytes], format.random(generator));
        communicator.all_reduce(input.data(), output.data(), kCount, format.dtype, GIMBAL_SUM);
        const uint64_t first = hash_bytes(output);
        EXPECT_TRUE(communicator.equal_on_all_ranks(output)) << format.name << " over " << ranks << " ranks";
        for (size_t repetition = 1; repetition < kRepetitions; ++repetition) {
          communicator.all_reduce(input.data(), output.data(), kCount, format.dtype, GIMBAL_SUM);
          ASSERT_EQ(hash_bytes(output), first) << format.name << " over " << ranks << " ranks, repetition " << repetition;
        }
      }
    });
  }
}

TEST_P(Sum, OfFourRanksIsRight) {
  run_ranks(GetParam().ranks, 4, [&](const RankContext& context) {
    Communicator communicator(context, GetParam().algorithm);
    Buffer send(communicator, GetParam().memory, 2 * sizeof(double));
    Buffer recv(communicator, GetParam().memory, 2 * sizeof(double));
    const auto input = send.place<double>(2);
    const auto output = recv.place<double>(2);
    input[0] = context.rank;
    input[1] = context.rank == 0 ? 0 : 1.0 / context.rank;
    communicator.all_reduce(input.data(), output.data(), 2, GIMBAL_FLOAT64, GIMBAL_SUM);
    EXPECT_EQ(output[0], 6);
    EXPECT_NEAR(output[1], 1.8333333333333333, 1e-15);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Sum, testing::ValuesIn(all_scenarios()), scenario_test_name);

// A sum in deterministic mode by `algorithm`, as a hash; nothing when the mode does not admit it for so many ranks.
std::optional<uint64_t> deterministic_sum(const RankContext& context, const std::string& algorithm,
                                          std::span<const float> input) {
  gimbal_config_t config = rank_config(context);
  const std::string forced = "all_reduce:" + algorithm;
  const std::string rendezvous = context.rendezvous + "-" + algorithm;
  config.rendezvous = rendezvous.c_str();
  config.algorithm = forced.c_str();
  config.deterministic = 1;
  gimbal_comm_t probe = nullptr;
  const gimbal_status_t status = gimbal_comm_create(&config, &probe);
  if (status == GIMBAL_UNSUPPORTED) {
    EXPECT_THAT(gimbal_last_error(), testing::HasSubstr(algorithm));
    return std::nullopt;
  }
  EXPECT_EQ(status, GIMBAL_OK) << gimbal_last_error();
  EXPECT_EQ(gimbal_comm_destroy(probe), GIMBAL_OK);
  const std::string again = rendezvous + "-again";
  config.rendezvous = again.c_str();
  Communicator communicator(config);
  std::vector<float> output(input.size());
  communicator.all_reduce(input.data(), output.data(), input.size(), GIMBAL_FLOAT32, GIMBAL_SUM);
  EXPECT_TRUE(communicator.equal_on_all_ranks(std::as_bytes(std::span(output)))) << algorithm;
  return hash_bytes(std::as_bytes(std::span(output)));
}

class DeterministicSum : public RanksTest, public testing::WithParamInterface<RankKind> {};

TEST_P(DeterministicSum, HasTheSameBitsByEveryAdmittedAlgorithm) {
  for (const int32_t ranks : kRankCounts) {
    run_ranks(GetParam(), ranks, [&](const RankContext& context) {
      std::vector<float> input(kCount);
      std::mt19937_64 generator(static_cast<uint64_t>(context.rank));
      for (float& value : input) kFloatFormats[0].store(&value, kFloatFormats[0].random(generator));
      std::set<uint64_t> hashes;
      size_t admitted = 0;
      for (const char* algorithm : kAllReduceAlgorithms) {
        const std::optional<uint64_t> hash = deterministic_sum(context, algorithm, input);
        admitted += hash ? 1 : 0;
        if (hash) hashes.insert(*hash);
      }
      EXPECT_EQ(hashes.size(), 1U) << ranks << " ranks";
      EXPECT_GE(admitted, 2U) << "with one algorithm there is nothing to compare";
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, DeterministicSum, testing::ValuesIn(rank_kinds()), kind_test_name);

}  // namespace
}  // namespace gimbal::test
