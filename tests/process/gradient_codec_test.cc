// Codecs of gradients through the C interface: PowerSGD, top-k, and ones of the program's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "tests/support/gradient_synchronizer.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kRows = 60;
constexpr size_t kColumns = 90;
const std::vector<size_t> kCounts = {kRows * kColumns, 90, 40 * 50};
constexpr size_t kMatrixRows[] = {kRows, 1, 40};

gimbal_gradsync_options_t with_codec(const gimbal_codec_t& codec, size_t bucket_bytes = 1 << 20) {
  gimbal_gradsync_options_t options = GIMBAL_GRADSYNC_OPTIONS_INIT;
  options.codec = &codec;
  options.rows = kMatrixRows;
  options.bucket_bytes = bucket_bytes;
  options.first_bucket_bytes = bucket_bytes;
  return options;
}

gimbal_codec_t power_sgd(int32_t rank) {
  gimbal_codec_t codec = {};
  EXPECT_EQ(gimbal_codec_power_sgd(rank, &codec), GIMBAL_OK) << gimbal_last_error();
  return codec;
}

gimbal_codec_t top_k(double ratio) {
  gimbal_codec_t codec = {};
  EXPECT_EQ(gimbal_codec_top_k(ratio, &codec), GIMBAL_OK) << gimbal_last_error();
  return codec;
}

std::vector<float> gradient_of(int32_t rank, int step, size_t parameter) {
  std::mt19937 generator(static_cast<unsigned>(rank * 1000 + step * 10) + static_cast<unsigned>(parameter));
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(kCounts[parameter]);
  for (float& value : values) value = normal(generator);
  return values;
}

using GradientOf = std::vector<float> (*)(int32_t rank, int step, size_t parameter);

void make_step(GradientSynchronizer& sync, int step, GradientOf gradient = gradient_of) {
  for (size_t i = kCounts.size(); i-- > 0;) {
    std::ranges::copy(gradient(sync.rank(), step, i), sync.gradient(i).begin());
    sync.ready(i);
  }
  sync.end();
}

std::vector<double> mean_of(int32_t ranks, int step, size_t parameter, GradientOf gradient = gradient_of) {
  std::vector<double> mean(kCounts[parameter]);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = gradient(rank, step, parameter);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(values[i]) / ranks;
  }
  return mean;
}

double distance(std::span<const float> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

double length(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

class GradientCodec : public ::testing::TestWithParam<RankKind> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GradientCodec, ::testing::ValuesIn(rank_kinds()),
                         [](const auto& kind) { return rank_kind_name(kind.param); });

TEST_P(GradientCodec, PowerSgdFindsAMatrixOfItsRankExactly) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    GradientSynchronizer sync(context, kCounts, with_codec(power_sgd(2)));
    // The mean has rank 2, each rank's own matrix too.
    const GradientOf low_rank = [](int32_t rank, int, size_t parameter) {
      std::vector<float> values(kCounts[parameter]);
      const size_t columns = kCounts[parameter] / kMatrixRows[parameter];
      for (size_t i = 0; i < values.size(); ++i) {
        const auto row = static_cast<float>(i / columns);
        const auto column = static_cast<float>(i % columns);
        values[i] = std::sin(row) * std::cos(column) + static_cast<float>(rank) * std::cos(row) * std::sin(2 * column);
      }
      return values;
    };
    make_step(sync, 0, low_rank);
    for (size_t i = 0; i < kCounts.size(); ++i) {
      const std::vector<double> mean = mean_of(3, 0, i, low_rank);
      EXPECT_LT(distance(sync.gradient(i), mean), 1e-4 * length(mean)) << "parameter " << i;
    }
    EXPECT_EQ(gimbal_gradsync_check(sync.get(), nullptr), GIMBAL_OK) << gimbal_last_error();
    // 2 (60 + 90) and 2 (40 + 50) floats, and the 90 that are no matrix, instead of 7490; of an all-reduce 4/3 are sent, and
    // each of the three is rounded down.
    EXPECT_NEAR(sync.stats().sent_bytes, (300 + 180 + 90) * sizeof(float) * 4 / 3, 3);
  });
}

// Whatever a step leaves out is carried, so that the sum of results follows the sum of means.
TEST_P(GradientCodec, CarriesWhatAStepLeavesOut) {
  for (const gimbal_codec_t& codec : {power_sgd(4), top_k(0.1)}) {
    run_ranks(GetParam(), 2, [&](const RankContext& context) {
      GradientSynchronizer sync(context, kCounts, with_codec(codec));
      const GradientOf constant = [](int32_t rank, int, size_t parameter) { return gradient_of(rank, 0, parameter); };
      const std::vector<double> mean = mean_of(2, 0, 0, constant);
      std::vector<float> sum(kCounts[0]);
      double first = 0;
      double last = 0;
      constexpr int kSteps = 60;
      for (int step = 1; step <= kSteps; ++step) {
        make_step(sync, step, constant);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += sync.gradient(0)[i];
        std::vector<double> exact = mean;
        for (double& each : exact) each *= step;
        last = distance(sum, exact) / length(exact);
        if (step == 1) first = last;
      }
      EXPECT_GT(first, 0.3) << codec.name;  // a step alone is far off
      EXPECT_LT(last, first / 3) << codec.name;
      EXPECT_EQ(gimbal_gradsync_check(sync.get(), nullptr), GIMBAL_OK) << gimbal_last_error();
    });
  }
}

TEST_P(GradientCodec, TopKSendsTheLargestElementsOfEachRank) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    GradientSynchronizer sync(context, kCounts, with_codec(top_k(0.001)));  // 5, 1 (of the least) and 2 elements
    for (size_t i = kCounts.size(); i-- > 0;) {
      std::ranges::fill(sync.gradient(i), 0.25F);
      if (i == 0) {
        for (size_t k = 0; k < 5; ++k) sync.gradient(0)[100 * k + static_cast<size_t>(context.rank)] = -8.0F;
      }
      sync.ready(i);
    }
    sync.end();
    for (size_t i = 0; i < kCounts[0]; ++i) ASSERT_EQ(sync.gradient(0)[i], i % 100 < 2 && i < 500 ? -4.0F : 0.0F) << i;
    EXPECT_EQ(sync.gradient(2)[0], 0.25F);
    EXPECT_EQ(sync.gradient(2)[2], 0.0F);
    EXPECT_EQ(sync.stats().sent_bytes, (5 + 1 + 2) * 8u);
  });
}

TEST_P(GradientCodec, GoesOnWithTheSameBitsFromACheckpoint) {
  for (const gimbal_codec_t& codec : {power_sgd(2), top_k(0.05)}) {
    run_ranks(GetParam(), 2, [&](const RankContext& context) {
      std::vector<std::byte> state;
      std::vector<float> expected;
      const auto named = [&](const char* name) { return RankContext{context.rank, context.size, context.rendezvous + name}; };
      {
        GradientSynchronizer sync(named("-a"), kCounts, with_codec(codec));
        for (int step = 0; step < 3; ++step) make_step(sync, step);
        state = sync.saved_state();
        for (int step = 3; step < 5; ++step) make_step(sync, step);
        expected.assign(sync.gradient(0).begin(), sync.gradient(0).end());
      }
      GradientSynchronizer sync(named("-b"), kCounts, with_codec(codec, 1024));
      EXPECT_EQ(gimbal_gradsync_state_load(sync.get(), state.data(), state.size()), GIMBAL_OK) << gimbal_last_error();
      for (int step = 3; step < 5; ++step) make_step(sync, step);
      EXPECT_EQ(std::memcmp(sync.gradient(0).data(), expected.data(), expected.size() * sizeof(float)), 0) << codec.name;
    });
  }
}

TEST_P(GradientCodec, LosesOnlyTheStepWhoseGradientWasNotFinite) {
  for (const gimbal_codec_t& codec : {power_sgd(2), top_k(0.05)}) {
    run_ranks(GetParam(), 2, [&](const RankContext& context) {
      GradientSynchronizer sync(context, kCounts, with_codec(codec));
      make_step(sync, 0, [](int32_t rank, int step, size_t parameter) {
        std::vector<float> values = gradient_of(rank, step, parameter);
        if (rank == 1) values[17] = NAN;
        return values;
      });
      EXPECT_TRUE(std::isnan(sync.gradient(0)[17])) << codec.name;
      make_step(sync, 1);
      for (const float value : sync.gradient(0)) ASSERT_TRUE(std::isfinite(value)) << codec.name;
    });
  }
}

// A codec of the program's own: what it sends is the whole tensor, and its memory counts the steps.
struct Whole {
  size_t count;
  uint64_t steps;
};
gimbal_codec_t whole_codec(gimbal_codec_exchange_t exchange) {
  gimbal_codec_t codec = {};
  codec.struct_bytes = sizeof codec;
  std::strcpy(codec.name, "whole");
  codec.rounds = 1;
  codec.exchange = exchange;
  codec.open = [](const gimbal_codec_t*, const gimbal_codec_tensor_t* tensor) -> void* {
    return new Whole{tensor->rows * tensor->columns, 0};
  };
  codec.close = [](void* state) { delete static_cast<Whole*>(state); };
  codec.message_bytes = [](const void* state, int32_t) { return static_cast<const Whole*>(state)->count * sizeof(float); };
  codec.encode = [](void* state, int32_t, float* values, void* message) {
    auto& whole = *static_cast<Whole*>(state);
    ++whole.steps;
    std::memcpy(message, values, whole.count * sizeof(float));
    std::fill_n(values, whole.count, 0.0F);
  };
  codec.memory = [](void* state, size_t* bytes) -> void* {
    *bytes = sizeof(uint64_t);
    return &static_cast<Whole*>(state)->steps;
  };
  if (exchange == GIMBAL_CODEC_SUM) {
    codec.decode = [](void* state, int32_t, const void* messages, size_t, float* result) {
      std::memcpy(result, messages, static_cast<Whole*>(state)->count * sizeof(float));
    };
  } else {
    codec.decode = [](void* state, int32_t, const void* messages, size_t stride, float* result) {
      const size_t count = static_cast<Whole*>(state)->count;
      const auto* const second = reinterpret_cast<const float*>(static_cast<const std::byte*>(messages) + stride);
      for (size_t i = 0; i < count; ++i) result[i] = static_cast<const float*>(messages)[i] + second[i];
    };
  }
  return codec;
}

TEST_P(GradientCodec, MayBeTheProgramsOwn) {
  for (const gimbal_codec_exchange_t exchange : {GIMBAL_CODEC_SUM, GIMBAL_CODEC_GATHER}) {
    run_ranks(GetParam(), 2, [&](const RankContext& context) {
      GradientSynchronizer sync(context, kCounts, with_codec(whole_codec(exchange), 8192));
      for (int step = 0; step < 3; ++step) {
        for (size_t i = kCounts.size(); i-- > 0;) {
          std::ranges::fill(sync.gradient(i), static_cast<float>(2 * context.rank + step));
          sync.ready(i);
        }
        sync.end();
        for (size_t i = 0; i < kCounts.size(); ++i) EXPECT_THAT(sync.gradient(i), Each(static_cast<float>(1 + step)));
      }
      const std::vector<std::byte> state = sync.saved_state();
      uint64_t steps = 0;
      std::memcpy(&steps, state.data() + state.size() - sizeof steps, sizeof steps);
      EXPECT_EQ(steps, 3u);
    });
  }
}

TEST_P(GradientCodec, OfAnotherNameOrSizeOnARankIsAMismatch) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    {
      Communicator comm({context.rank, context.size, context.rendezvous + "-a"});
      const gimbal_codec_t codec = top_k(context.rank == 0 ? 0.1 : 0.2);
      const gimbal_gradsync_options_t options = with_codec(codec);
      const gimbal_gradsync_parameter_t parameters[] = {
          {"a", 5400, GIMBAL_FLOAT32}, {"b", 1, GIMBAL_FLOAT32}, {"c", 400, GIMBAL_FLOAT32}};
      gimbal_gradsync_t sync = nullptr;
      EXPECT_EQ(gimbal_gradsync_create(comm.get(), parameters, 3, &options, &sync), GIMBAL_MISMATCH);
      const std::string sentence = gimbal_last_error();
      EXPECT_THAT(sentence, HasSubstr(context.rank == 1 ? "codec top_k ratio 0.2 here" : "parameters of rank 1"));
    }
    gimbal_codec_t codec = whole_codec(GIMBAL_CODEC_SUM);
    if (context.rank == 1) {
      codec.message_bytes = [](const void* state, int32_t) {
        return (static_cast<const Whole*>(state)->count + 2) * sizeof(float);
      };
    }
    GradientSynchronizer sync({context.rank, context.size, context.rendezvous + "-b"}, kCounts, with_codec(codec));
    for (size_t i = kCounts.size(); i-- > 0;) sync.ready(i);
    ASSERT_EQ(gimbal_gradsync_step_end(sync.get(), 1), GIMBAL_OK);
    EXPECT_EQ(gimbal_gradsync_wait(sync.get(), GIMBAL_GRADSYNC_ALL), GIMBAL_MISMATCH) << gimbal_last_error();
    EXPECT_THAT(gimbal_last_error(), HasSubstr("from \"p2\" to \"p0\""));
  });
}

TEST(GradientCodecArguments, AreToldWithWhatIsAllowed) {
  gimbal_codec_t codec = {};
  EXPECT_EQ(gimbal_codec_power_sgd(0, &codec), GIMBAL_INVALID_ARGUMENT);
  EXPECT_THAT(gimbal_last_error(), HasSubstr("rank is 0; allowed: 1 to 64"));
  EXPECT_EQ(gimbal_codec_top_k(1, &codec), GIMBAL_INVALID_ARGUMENT);
  EXPECT_THAT(gimbal_last_error(), HasSubstr("allowed: above 0 and below 1"));
  run_ranks(RankKind::kThreads, 1, [](const RankContext& context) {
    Communicator comm(context);
    const gimbal_gradsync_parameter_t parameter = {"w", 7, GIMBAL_FLOAT32};
    const auto refused = [&](const gimbal_gradsync_options_t& options, const char* sentence) {
      gimbal_gradsync_t sync = nullptr;
      EXPECT_EQ(gimbal_gradsync_create(comm.get(), &parameter, 1, &options, &sync), GIMBAL_INVALID_ARGUMENT) << sentence;
      EXPECT_THAT(gimbal_last_error(), HasSubstr(sentence));
    };
    gimbal_codec_t whole = whole_codec(GIMBAL_CODEC_SUM);
    refused(with_codec(whole), "parameter 0 (\"w\") has 7 elements, which are not options.rows, 60, equal rows");
    gimbal_gradsync_options_t both = with_codec(whole);
    both.wire = GIMBAL_GRADSYNC_WIRE_INT8;
    refused(both, "options.codec is given with options.wire 3; a codec needs 0");
    whole.rounds = 9;
    refused(with_codec(whole), "options.codec->rounds is 9; allowed: 1 to 8");
    whole.rounds = 1;
    whole.decode = nullptr;
    refused(with_codec(whole), "options.codec lacks a function");
    whole.struct_bytes = 3;
    refused(with_codec(whole), "options.codec->struct_bytes is 3");
  });
}

}  // namespace
}  // namespace gimbal::test
