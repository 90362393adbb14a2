// Gradients that travel in smaller types: accuracy, equal bits, error feedback, checkpoints, weights, levels, trouble.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/support/gradient_synchronizer.h"
#include "tests/support/hosts.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

using ::testing::HasSubstr;

const std::vector<size_t> kCounts = {300, 5000, 3, 0, 70'000, 257};

gimbal_gradsync_options_t with_wire(gimbal_gradsync_wire_t wire, size_t bucket_bytes = 65536) {
  gimbal_gradsync_options_t options = GIMBAL_GRADSYNC_OPTIONS_INIT;
  options.wire = wire;
  options.bucket_bytes = bucket_bytes;
  options.first_bucket_bytes = std::min<size_t>(bucket_bytes, 4096);
  return options;
}

// A rank's gradient in a step: what a layer could have, another magnitude in each.
std::vector<float> gradient_of(int32_t rank, int step, size_t parameter) {
  std::mt19937 generator(static_cast<unsigned>(rank * 1000 + step * 10) + static_cast<unsigned>(parameter));
  std::normal_distribution<float> normal(0.1F, std::pow(10.0F, -static_cast<float>(parameter)));
  std::vector<float> values(kCounts[parameter]);
  for (float& value : values) value = normal(generator);
  return values;
}

std::vector<double> exact_mean(int32_t ranks, int step, size_t parameter) {
  std::vector<double> mean(kCounts[parameter]);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = gradient_of(rank, step, parameter);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(values[i]) / ranks;
  }
  return mean;
}

void make_step(GradientSynchronizer& sync, int step, double weight = 1) {
  for (size_t i = kCounts.size(); i-- > 0;) {
    std::ranges::copy(gradient_of(sync.rank(), step, i), sync.gradient(i).begin());
    sync.ready(i);
  }
  sync.end(weight);
}

std::vector<float> all_gradients(const GradientSynchronizer& sync) {
  std::vector<float> all;
  for (size_t i = 0; i < kCounts.size(); ++i) all.insert(all.end(), sync.gradient(i).begin(), sync.gradient(i).end());
  return all;
}

float largest(std::span<const float> values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

class GradientWire : public ::testing::TestWithParam<RankKind> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GradientWire, ::testing::ValuesIn(rank_kinds()),
                         [](const auto& kind) { return rank_kind_name(kind.param); });

constexpr gimbal_gradsync_wire_t kWires[] = {GIMBAL_GRADSYNC_WIRE_BFLOAT16, GIMBAL_GRADSYNC_WIRE_FLOAT16,
                                             GIMBAL_GRADSYNC_WIRE_INT8, GIMBAL_GRADSYNC_WIRE_FLOAT8};

TEST_P(GradientWire, LeavesTheMeanWithinTheTypesRoundingAndEqualOnAllRanks) {
  for (const int32_t ranks : {1, 2, 3, 4}) {
    run_ranks(GetParam(), ranks, [&](const RankContext& context) {
      for (const gimbal_gradsync_wire_t wire : kWires) {
        const RankContext own = {context.rank, context.size, context.rendezvous + "-" + std::to_string(wire)};
        GradientSynchronizer sync(own, kCounts, with_wire(wire));
        make_step(sync, 0);
        // Two roundings, of each rank's part and of the sum; of an 8-bit type relative to the largest of a block.
        const float step = wire == GIMBAL_GRADSYNC_WIRE_BFLOAT16  ? 0x1p-7F
                           : wire == GIMBAL_GRADSYNC_WIRE_FLOAT16 ? 0x1p-10F
                                                                  : 1;
        for (size_t i = 0; i < kCounts.size(); ++i) {
          const std::vector<double> expected = exact_mean(ranks, 0, i);
          float most = 0;
          for (int32_t rank = 0; rank < ranks; ++rank) most = std::max(most, largest(gradient_of(rank, 0, i)));
          const float bound = most * (wire == GIMBAL_GRADSYNC_WIRE_INT8     ? 0x1p-7F
                                      : wire == GIMBAL_GRADSYNC_WIRE_FLOAT8 ? 0x1p-3F
                                                                            : step);
          float worst = 0;
          for (size_t k = 0; k < kCounts[i]; ++k) {
            worst = std::max(worst, std::abs(sync.gradient(i)[k] - static_cast<float>(expected[k])));
          }
          EXPECT_LE(worst, bound) << "wire " << wire << ", parameter " << i;
        }
        EXPECT_EQ(gimbal_gradsync_check(sync.get(), nullptr), GIMBAL_OK) << gimbal_last_error();
      }
    });
  }
}

TEST_P(GradientWire, SendsAHalfOrAQuarterOfTheBytes) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    const auto sent = [&](gimbal_gradsync_wire_t wire) {
      const RankContext own = {context.rank, context.size, context.rendezvous + "-" + std::to_string(wire)};
      GradientSynchronizer sync(own, kCounts, with_wire(wire, 1 << 20));
      make_step(sync, 0);
      return static_cast<double>(sync.stats().sent_bytes);
    };
    const double as_is = sent(GIMBAL_GRADSYNC_WIRE_AS_IS);
    EXPECT_NEAR(sent(GIMBAL_GRADSYNC_WIRE_BFLOAT16) / as_is, 0.50, 0.03);
    EXPECT_NEAR(sent(GIMBAL_GRADSYNC_WIRE_INT8) / as_is, 0.254, 0.02);
    EXPECT_NEAR(sent(GIMBAL_GRADSYNC_WIRE_FLOAT8) / as_is, 0.254, 0.02);
  });
}

// What one step loses the next one brings: the sum of results differs from the exact one by the last step's loss only.
TEST_P(GradientWire, CarriesWhatRoundingLosesToTheNextStep) {
  constexpr int kSteps = 20;
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    for (const gimbal_gradsync_wire_t wire : {GIMBAL_GRADSYNC_WIRE_INT8, GIMBAL_GRADSYNC_WIRE_FLOAT8}) {
      const RankContext own = {context.rank, context.size, context.rendezvous + "-" + std::to_string(wire)};
      GradientSynchronizer sync(own, kCounts, with_wire(wire));
      std::vector<double> of_sums(kCounts[1]);
      std::vector<double> exact(kCounts[1]);
      double without = 0;
      for (int step = 0; step < kSteps; ++step) {
        make_step(sync, step);
        const std::vector<double> mean = exact_mean(context.size, step, 1);
        for (size_t i = 0; i < exact.size(); ++i) {
          of_sums[i] += static_cast<double>(sync.gradient(1)[i]);
          exact[i] += mean[i];
          without += std::abs(static_cast<double>(sync.gradient(1)[i]) - mean[i]);
        }
      }
      double error = 0;
      for (size_t i = 0; i < exact.size(); ++i) error += std::abs(of_sums[i] - exact[i]);
      EXPECT_LT(error, 0.15 * without) << "wire " << wire;
      EXPECT_GT(without, 0) << "wire " << wire;
    }
  });
}

TEST_P(GradientWire, DependsNeitherOnBucketsNorOnTheOrderInWhichTheyComplete) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    for (const gimbal_gradsync_wire_t wire : kWires) {
      std::vector<float> first;
      for (const size_t bucket_bytes : {2048, 40'000, 1 << 22}) {
        const RankContext own = {context.rank, context.size,
                                 context.rendezvous + "-" + std::to_string(wire) + "-" + std::to_string(bucket_bytes)};
        GradientSynchronizer sync(own, kCounts, with_wire(wire, bucket_bytes));
        for (int step = 0; step < 3; ++step) {
          std::vector<size_t> order = {5, 4, 3, 2, 1, 0};
          std::ranges::rotate(order, order.begin() + (bucket_bytes == 40'000 ? (context.rank + step) % 6 : 0));
          for (const size_t i : order) {
            std::ranges::copy(gradient_of(context.rank, step, i), sync.gradient(i).begin());
            sync.ready(i);
          }
          sync.end();
        }
        if (first.empty()) first = all_gradients(sync);
        EXPECT_TRUE(same_bits(all_gradients(sync), first)) << "wire " << wire << ", buckets of " << bucket_bytes;
      }
    }
  });
}

TEST_P(GradientWire, GoesOnWithTheSameBitsFromACheckpoint) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    std::vector<std::byte> state;
    std::vector<float> expected;
    {
      GradientSynchronizer sync({context.rank, context.size, context.rendezvous + "-a"}, kCounts,
                                with_wire(GIMBAL_GRADSYNC_WIRE_INT8));
      for (int step = 0; step < 3; ++step) make_step(sync, step);
      state = sync.saved_state();
      for (int step = 3; step < 5; ++step) make_step(sync, step);
      expected = all_gradients(sync);
    }
    const auto later_steps = [&](const char* name, bool restored) {
      GradientSynchronizer sync({context.rank, context.size, context.rendezvous + name}, kCounts,
                                with_wire(GIMBAL_GRADSYNC_WIRE_INT8, 1 << 20));
      if (restored) {
        EXPECT_EQ(gimbal_gradsync_state_load(sync.get(), state.data(), state.size()), GIMBAL_OK) << gimbal_last_error();
      }
      for (int step = 3; step < 5; ++step) make_step(sync, step);
      return same_bits(all_gradients(sync), expected);
    };
    EXPECT_TRUE(later_steps("-b", true));
    EXPECT_FALSE(later_steps("-c", false));  // else the state would not matter
  });
}

TEST_P(GradientWire, RefusesAStateThatIsNotItsOwn) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    GradientSynchronizer sync(context, kCounts, with_wire(GIMBAL_GRADSYNC_WIRE_INT8));
    std::vector<std::byte> state = sync.saved_state();
    EXPECT_EQ(gimbal_gradsync_state_save(sync.get(), state.data(), 3), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("bytes is 3; gimbal_gradsync_state_bytes says"));
    state[8] ^= std::byte{1};  // the rank
    EXPECT_EQ(gimbal_gradsync_state_load(sync.get(), state.data(), state.size()), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("the state is of rank " + std::to_string(1 - context.rank) + " of 2"));
  });
}

TEST_P(GradientWire, WeighsAndLetsRanksMakeDifferentNumbersOfSteps) {
  for (const gimbal_gradsync_wire_t wire : {GIMBAL_GRADSYNC_WIRE_BFLOAT16, GIMBAL_GRADSYNC_WIRE_INT8}) {
    gimbal_gradsync_options_t options = with_wire(wire);
    options.reduction = GIMBAL_GRADSYNC_WEIGHTED_MEAN;
    options.uneven = 1;
    run_ranks(GetParam(), 2, [&](const RankContext& context) {
      GradientSynchronizer sync(context, kCounts, options);
      const auto step = [&](float value, double weight) {
        for (size_t i = kCounts.size(); i-- > 0;) {
          std::ranges::fill(sync.gradient(i), value);
          sync.ready(i);
        }
        sync.end(weight);
      };
      step(context.rank == 0 ? 4.0F : 8.0F, context.rank == 0 ? 3 : 1);
      for (const float value : sync.gradient(4)) ASSERT_NEAR(value, 5.0F, 0.04F);
      if (context.rank == 1) {
        step(2.0F, 7);
        for (const float value : sync.gradient(4)) ASSERT_NEAR(value, 2.0F, 0.05F);
      }
      EXPECT_EQ(gimbal_gradsync_join(sync.get()), GIMBAL_OK) << gimbal_last_error();
    });
  }
}

TEST_P(GradientWire, ReducesTypesThatWouldNotBecomeSmallerAsTheyAre) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator comm(context);
    const gimbal_gradsync_parameter_t parameters[] = {{"wide", 1000, GIMBAL_FLOAT64}, {"narrow", 1000, GIMBAL_BFLOAT16}};
    gimbal_gradsync_options_t options = with_wire(GIMBAL_GRADSYNC_WIRE_INT8);
    gimbal_gradsync_t sync = nullptr;
    ASSERT_EQ(gimbal_gradsync_create(comm.get(), parameters, 2, &options, &sync), GIMBAL_OK) << gimbal_last_error();
    void* wide = nullptr;
    void* narrow = nullptr;
    ASSERT_EQ(gimbal_gradsync_gradient(sync, 0, &wide), GIMBAL_OK);
    ASSERT_EQ(gimbal_gradsync_gradient(sync, 1, &narrow), GIMBAL_OK);
    std::fill_n(static_cast<double*>(wide), 1000, 1 + 1e-12 * context.rank);
    std::fill_n(static_cast<uint16_t*>(narrow), 1000, uint16_t{0x4000});  // 2
    ASSERT_EQ(gimbal_gradsync_ready(sync, 1, nullptr), GIMBAL_OK);
    ASSERT_EQ(gimbal_gradsync_ready(sync, 0, nullptr), GIMBAL_OK);
    ASSERT_EQ(gimbal_gradsync_step_end(sync, 1), GIMBAL_OK);
    ASSERT_EQ(gimbal_gradsync_wait(sync, GIMBAL_GRADSYNC_ALL), GIMBAL_OK) << gimbal_last_error();
    EXPECT_THAT(std::span(static_cast<double*>(wide), 1000), ::testing::Each(1 + 0.5e-12));
    EXPECT_THAT(std::span(static_cast<uint16_t*>(narrow), 1000), ::testing::Each(uint16_t{0x4000}));
    EXPECT_EQ(gimbal_gradsync_destroy(sync), GIMBAL_OK);
  });
}

TEST_P(GradientWire, LosesOnlyTheStepWhoseGradientWasNotFinite) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    GradientSynchronizer sync(context, kCounts, with_wire(GIMBAL_GRADSYNC_WIRE_INT8));
    for (size_t i = kCounts.size(); i-- > 0;) {
      std::ranges::fill(sync.gradient(i), 1.0F);
      if (i == 1 && context.rank == 1) sync.gradient(1)[42] = INFINITY;
      sync.ready(i);
    }
    sync.end();
    EXPECT_FALSE(std::isfinite(sync.gradient(1)[42]));
    EXPECT_FLOAT_EQ(sync.gradient(4)[0], 1.0F);
    make_step(sync, 1);
    for (const float value : all_gradients(sync)) ASSERT_TRUE(std::isfinite(value));
  });
}

// On one machine all ranks are one node: nothing is between nodes, so nothing is rounded.
TEST_P(GradientWire, RoundsNothingInsideANodeWhenOnlyTheLinkBetweenNodesIsToBeSaved) {
  gimbal_gradsync_options_t options = with_wire(GIMBAL_GRADSYNC_WIRE_INT8);
  options.wire_between_nodes = 1;
  run_ranks(GetParam(), 2, [&](const RankContext& context) {
    GradientSynchronizer sync(context, kCounts, options);
    make_step(sync, 0);
    const std::vector<double> expected = exact_mean(2, 0, 1);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(sync.gradient(1)[i], expected[i], 1e-7);
  });
}

TEST(GradientWireOverHosts, CompressesBetweenNodesOnlyAndTellsEveryRankOfADeadOne) {
  const auto hosts = Hosts::start(2);
  if (!hosts.ok()) GTEST_SKIP() << hosts.status().message();
  const auto results = run_processes(
      4,
      [&](const RankContext& context) {
        (*hosts)->enter(static_cast<size_t>(context.rank) / 2);
        gimbal_config_t config = rank_config(context);
        const std::string rendezvous = "tcp://" + (**hosts)[0].address + ":29533";
        config.rendezvous = rendezvous.c_str();
        gimbal_gradsync_options_t options = with_wire(GIMBAL_GRADSYNC_WIRE_INT8);
        options.wire_between_nodes = 1;
        GradientSynchronizer sync(config, kCounts, options);
        make_step(sync, 0);
        const std::vector<double> expected = exact_mean(4, 0, 1);
        for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(sync.gradient(1)[i], expected[i], 0.02);
        EXPECT_EQ(gimbal_gradsync_check(sync.get(), nullptr), GIMBAL_OK) << gimbal_last_error();
        if (context.rank == 3) raise(SIGKILL);
        for (size_t i = kCounts.size(); i-- > 0;) sync.ready(i);
        ASSERT_EQ(gimbal_gradsync_step_end(sync.get(), 1), GIMBAL_OK) << gimbal_last_error();
        EXPECT_EQ(gimbal_gradsync_wait(sync.get(), GIMBAL_GRADSYNC_ALL), GIMBAL_REMOTE) << gimbal_last_error();
        EXPECT_THAT(gimbal_last_error(), HasSubstr("rank 3"));
      },
      kTimeoutMs);
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(results[rank].exit_code, 0) << rank << ": " << results[rank].output;
}

TEST(GradientWireFork, AChildIsToldThatTheSynchronizerIsItsParents) {
  run_ranks(rank_kinds().back(), 2, [](const RankContext& context) {
    GradientSynchronizer sync(context, kCounts, with_wire(GIMBAL_GRADSYNC_WIRE_INT8));
    make_step(sync, 0);
    const pid_t child = fork();
    if (child == 0) {
      gimbal_status_t status = gimbal_gradsync_ready(sync.get(), 5, nullptr);
      if (status == GIMBAL_OK) status = gimbal_gradsync_step_end(sync.get(), 1);
      _exit(status == GIMBAL_INVALID_USAGE ? 0 : 1);
    }
    int ended = -1;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0);
    make_step(sync, 1);
  });
}

}  // namespace
}  // namespace gimbal::test
