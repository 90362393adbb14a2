// The gradient synchronizer over the C API: reductions, order, accumulation, what is missing, uneven steps, disagreement.
#include "gimbal/gradsync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/deadline.h"
#include "tests/support/communicator.h"
#include "tests/support/gradient_synchronizer.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Small buckets, so that a step has several of them and one parameter is split.
gimbal_gradsync_options_t small_buckets() {
  gimbal_gradsync_options_t options = GIMBAL_GRADSYNC_OPTIONS_INIT;
  options.bucket_bytes = 4096;
  options.first_bucket_bytes = 1024;
  return options;
}

const std::vector<size_t> kCounts = {1000, 3, 5000, 70, 257};

class Sync : public GradientSynchronizer {
 public:
  Sync(const RankContext& context, const gimbal_gradsync_options_t& options)
      : GradientSynchronizer(context, kCounts, options,
                             {"first.weight", "first.bias", "second.weight", "second.bias", "head"}) {}
  // As a backward pass does it, last layer first.
  void backward(float value) {
    for (size_t i = kCounts.size(); i-- > 0;) {
      std::ranges::fill(gradient(i), value + static_cast<float>(i));
      ASSERT_EQ(gimbal_gradsync_ready(get(), i, nullptr), GIMBAL_OK) << gimbal_last_error();
    }
  }
  void expect_gradients(float value) const {
    for (size_t i = 0; i < kCounts.size(); ++i) {
      EXPECT_THAT(gradient(i), ::testing::Each(value + static_cast<float>(i))) << "parameter " << i;
    }
  }
};

class GradientSync : public ::testing::TestWithParam<RankKind> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GradientSync, ::testing::ValuesIn(rank_kinds()),
                         [](const auto& kind) { return rank_kind_name(kind.param); });

TEST_P(GradientSync, LeavesTheMeanOfEveryGradientStepAfterStep) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    Sync sync(context, small_buckets());
    for (int step = 0; step < 4; ++step) {
      sync.backward(static_cast<float>(3 * sync.rank() + step));
      sync.end();
      sync.expect_gradients(static_cast<float>(3 + step));
    }
    gimbal_gradsync_stats_t stats = GIMBAL_GRADSYNC_STATS_INIT;
    ASSERT_EQ(gimbal_gradsync_stats(sync.get(), &stats), GIMBAL_OK);
    EXPECT_EQ(stats.steps, 4u);
    EXPECT_EQ(stats.bytes, std::accumulate(kCounts.begin(), kCounts.end(), size_t{0}) * sizeof(float));
    EXPECT_GT(stats.buckets, 4u);
    EXPECT_LE(stats.exposed_ns, stats.span_ns);
  });
}

TEST_P(GradientSync, KeepsOneOrderOnRanksWhoseBackwardPassesHaveAnother) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Sync sync(context, small_buckets());
    for (int step = 0; step < 3; ++step) {
      std::vector<size_t> order = {4, 3, 2, 1, 0};
      std::rotate(order.begin(), order.begin() + (sync.rank() + step) % 5, order.end());
      for (const size_t i : order) {
        std::ranges::fill(sync.gradient(i), static_cast<float>(2 * sync.rank() + step) + static_cast<float>(i));
        ASSERT_EQ(gimbal_gradsync_ready(sync.get(), i, nullptr), GIMBAL_OK) << gimbal_last_error();
      }
      sync.end();
      sync.expect_gradients(static_cast<float>(1 + step));
    }
  });
}

TEST_P(GradientSync, WeighsUnequalBatchesWhetherTheWeightIsKnownBeforeOrAfter) {
  gimbal_gradsync_options_t options = small_buckets();
  options.reduction = GIMBAL_GRADSYNC_WEIGHTED_MEAN;
  run_ranks(GetParam(), 2, [&](const RankContext& context) {
    Sync sync(context, options);
    const double weight = sync.rank() == 0 ? 3 : 1;
    for (const bool announced : {false, true}) {
      if (announced) {
        ASSERT_EQ(gimbal_gradsync_weight(sync.get(), weight), GIMBAL_OK) << gimbal_last_error();
      }
      sync.backward(sync.rank() == 0 ? 4.0F : 8.0F);
      sync.end(weight);
      sync.expect_gradients(5.0F);
    }
  });
}

TEST_P(GradientSync, ReducesOnceWhatMicroBatchesHaveAddedUp) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Sync sync(context, small_buckets());
    ASSERT_EQ(gimbal_gradsync_accumulate(sync.get(), 1), GIMBAL_OK);
    sync.backward(1.0F);
    EXPECT_EQ(gimbal_gradsync_step_end(sync.get(), 1), GIMBAL_INVALID_USAGE);
    ASSERT_EQ(gimbal_gradsync_accumulate(sync.get(), 0), GIMBAL_OK);
    // The last micro-batch adds to one parameter only; the others still count.
    std::ranges::fill(sync.gradient(2), static_cast<float>(4 * sync.rank()));
    ASSERT_EQ(gimbal_gradsync_ready(sync.get(), 2, nullptr), GIMBAL_OK);
    sync.end();
    EXPECT_THAT(sync.gradient(2), ::testing::Each(2.0F));
    EXPECT_THAT(sync.gradient(4), ::testing::Each(5.0F));
  });
}

TEST_P(GradientSync, NamesParametersWithoutGradientAndGoesOnWhenTheyHaveOne) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Sync sync(context, small_buckets());
    for (const size_t i : {4, 3, 1}) {
      std::ranges::fill(sync.gradient(i), static_cast<float>(i));
      ASSERT_EQ(gimbal_gradsync_ready(sync.get(), i, nullptr), GIMBAL_OK);
    }
    EXPECT_EQ(gimbal_gradsync_step_end(sync.get(), 1), GIMBAL_INVALID_USAGE);
    EXPECT_THAT(gimbal_last_error(),
                HasSubstr("2 of 5 parameters got no gradient in this step: \"first.weight\", \"second.weight\""));
    for (const size_t i : {2, 0}) {
      std::ranges::fill(sync.gradient(i), static_cast<float>(i));
      ASSERT_EQ(gimbal_gradsync_ready(sync.get(), i, nullptr), GIMBAL_OK);
    }
    sync.end();
    sync.expect_gradients(0.0F);
  });
}

TEST_P(GradientSync, TakesZerosForWhatIsMissingWhereThatIsWanted) {
  gimbal_gradsync_options_t options = small_buckets();
  options.missing = GIMBAL_GRADSYNC_MISSING_ZERO;
  run_ranks(GetParam(), 2, [&](const RankContext& context) {
    Sync sync(context, options);
    sync.backward(2.0F);
    sync.end();
    if (sync.rank() == 0) sync.backward(6.0F);  // rank 1's step touches nothing: last step's content must not count
    sync.end();
    EXPECT_THAT(sync.gradient(0), ::testing::Each(3.0F));
    EXPECT_THAT(sync.gradient(4), ::testing::Each(5.0F));
  });
}

TEST_P(GradientSync, LetsRanksMakeDifferentNumbersOfSteps) {
  gimbal_gradsync_options_t options = small_buckets();
  options.uneven = 1;
  run_ranks(GetParam(), 3, [&](const RankContext& context) {
    Sync sync(context, options);
    for (int step = 0; step < sync.rank(); ++step) {  // 0, 1 and 2 steps
      sync.backward(static_cast<float>(2 * sync.rank()));
      sync.end();
      sync.expect_gradients(step == 0 ? 3.0F : 4.0F);  // the mean of ranks 1 and 2, then rank 2's alone
    }
    EXPECT_EQ(gimbal_gradsync_join(sync.get()), GIMBAL_OK) << gimbal_last_error();
    sync.backward(static_cast<float>(sync.rank()));  // together again
    sync.end();
    sync.expect_gradients(1.0F);
    EXPECT_EQ(gimbal_gradsync_join(sync.get()), GIMBAL_OK) << gimbal_last_error();
  });
}

TEST_P(GradientSync, TellsEveryRankWhereParametersDiffer) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator comm(context);
    const size_t count = context.rank == 0 ? 10 : 11;
    const gimbal_gradsync_parameter_t parameters[] = {{"same", 4, GIMBAL_FLOAT32}, {"odd", count, GIMBAL_FLOAT32}};
    gimbal_gradsync_t sync = nullptr;
    EXPECT_EQ(gimbal_gradsync_create(comm.get(), parameters, 2, nullptr, &sync), GIMBAL_MISMATCH);
    EXPECT_THAT(gimbal_last_error(), context.rank == 0 ? HasSubstr("the parameters of rank 1 are not this rank's")
                                                       : HasSubstr("parameter 1: \"odd\", 11 of type 8 here, but parameter 1: "
                                                                   "\"odd\", 10 of type 8 on rank 0"));
    EXPECT_EQ(sync, nullptr);
  });
}

TEST_P(GradientSync, BroadcastsParametersAndFindsTheFirstThatDiffers) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    Sync sync(context, small_buckets());
    std::vector<std::vector<float>> values;
    std::vector<void*> pointers;
    for (const size_t count : kCounts) values.emplace_back(count, static_cast<float>(context.rank));
    for (auto& each : values) pointers.push_back(each.data());
    ASSERT_EQ(gimbal_gradsync_broadcast(sync.get(), pointers.data(), 1), GIMBAL_OK) << gimbal_last_error();
    for (const auto& each : values) EXPECT_THAT(each, ::testing::Each(1.0F));
    EXPECT_EQ(gimbal_gradsync_check(sync.get(), pointers.data()), GIMBAL_OK) << gimbal_last_error();
    if (context.rank == 2) values[2].back() = -1.0F;  // the planted drift
    EXPECT_EQ(gimbal_gradsync_check(sync.get(), pointers.data()), GIMBAL_MISMATCH);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("parameter 2 (\"second.weight\")"), HasSubstr("on rank 2 from rank 0")));
    sync.backward(1.0F);  // the communicator is as before
    sync.end();
  });
}

// The case of horovod #546 and pytorch #30509: what bucket sizes, an empty parameter and skipped ones do to accumulated sums.
TEST_P(GradientSync, GivesTheSameMeansOfMicroBatchesForEveryBucketSize) {
  run_ranks(GetParam(), 3, [&](const RankContext& context) {
    for (const size_t bucket_bytes : {size_t{1}, size_t{1024}, size_t{25} << 20, size_t{1} << 30}) {
      // A bucket of one byte is one of a cache line: a million elements would be 62,500 of them.
      const std::vector<size_t> counts = {1, 3, 0, bucket_bytes == 1 || kSanitized ? 10'003U : 1'000'003U};
      gimbal_gradsync_options_t options = GIMBAL_GRADSYNC_OPTIONS_INIT;
      options.missing = GIMBAL_GRADSYNC_MISSING_ZERO;
      options.bucket_bytes = bucket_bytes;
      options.first_bucket_bytes = bucket_bytes;
      const RankContext own = {context.rank, context.size, context.rendezvous + "-" + std::to_string(bucket_bytes)};
      GradientSynchronizer sync(own, counts, options);
      for (int pass = 0; pass < 3; ++pass) {
        ASSERT_EQ(gimbal_gradsync_accumulate(sync.get(), pass < 2 ? 1 : 0), GIMBAL_OK);
        for (const size_t i : {3, 2, 1, 0}) {
          if (i == 1 && context.rank == 1) continue;
          for (float& each : sync.gradient(i)) each = (pass == 0 ? 0 : each) + static_cast<float>(pass + context.rank);
          ASSERT_EQ(gimbal_gradsync_ready(sync.get(), i, nullptr), GIMBAL_OK) << gimbal_last_error();
        }
      }
      sync.end();
      EXPECT_THAT(sync.gradient(0), ::testing::Each(6.0F)) << bucket_bytes;
      EXPECT_THAT(sync.gradient(1), ::testing::Each(4.0F)) << bucket_bytes;  // (3 + 0 + 9) / 3
      EXPECT_THAT(sync.gradient(3), ::testing::Each(6.0F)) << bucket_bytes;
      EXPECT_EQ(sync.stats().steps, 1u);
    }
  });
}

// The communicator's deterministic mode adds each element by one tree over ranks: neither buckets nor their order matter.
TEST_P(GradientSync, DeterministicallyGivesTheSameBitsForEveryBucketSizeAndOrder) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    std::vector<float> first;
    for (const size_t bucket_bytes : {size_t{256}, size_t{5000}, size_t{1} << 20}) {
      gimbal_gradsync_options_t options = GIMBAL_GRADSYNC_OPTIONS_INIT;
      options.bucket_bytes = bucket_bytes;
      options.first_bucket_bytes = bucket_bytes;
      const RankContext own = {context.rank, context.size, context.rendezvous + "-" + std::to_string(bucket_bytes)};
      gimbal_config_t config = rank_config(own);
      config.deterministic = 1;
      GradientSynchronizer sync(config, kCounts, options);
      std::vector<size_t> order = {4, 3, 2, 1, 0};
      if (bucket_bytes == 5000) std::ranges::rotate(order, order.begin() + context.rank);
      for (int step = 0; step < 2; ++step) {
        for (const size_t i : order) {
          for (size_t k = 0; k < kCounts[i]; ++k) {
            // Sums of these depend on the order of additions.
            sync.gradient(i)[k] = 1.0F / static_cast<float>(static_cast<size_t>(7 * context.rank + 3) + k * (i + 1));
          }
          sync.ready(i);
        }
        sync.end();
      }
      std::vector<float> all;
      for (size_t i = 0; i < kCounts.size(); ++i) all.insert(all.end(), sync.gradient(i).begin(), sync.gradient(i).end());
      if (first.empty()) first = all;
      EXPECT_EQ(all, first) << "buckets of " << bucket_bytes;
    }
  });
}

// The step's numbers add up, and the rank that does something else first in every step is named.
TEST_P(GradientSync, SaysWhatAStepCostAndWhoIsLate) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    Sync sync(context, small_buckets());
    int named = 0;
    constexpr int kSteps = 13;
    for (int step = 0; step < kSteps; ++step) {
      const Deadline work = Deadline::after_ms(context.rank == 1 ? 20 : 0);
      while (!work.passed()) sched_yield();
      sync.backward(1.0F);
      sync.end();
      if (sync.stats().late_rank == 1 && sync.stats().late_ns > 0) ++named;
    }
    const gimbal_gradsync_stats_t stats = sync.stats();
    EXPECT_EQ(stats.overlap_ns + stats.exposed_ns, stats.span_ns);
    EXPECT_GE(stats.sent_bytes, stats.bytes * 4 / 3);  // 2 (n - 1) / n, and what aligns parameters
    EXPECT_LE(stats.sent_bytes, stats.bytes * 4 / 3 + kCounts.size() * 64 * 4 / 3);
    // On a busy machine another rank may be held up longer in a few steps.
    EXPECT_GT(named, kSteps / 2);
  });
}

TEST(GradientSyncArguments, AreToldWithWhatIsAllowed) {
  run_ranks(RankKind::kThreads, 1, [](const RankContext& context) {
    Communicator comm(context);
    const auto refused = [&](const char* name, size_t count, gimbal_dtype_t dtype, const char* sentence) {
      const gimbal_gradsync_parameter_t parameters[] = {{"w", 4, GIMBAL_FLOAT32}, {name, count, dtype}};
      gimbal_gradsync_t sync = nullptr;
      EXPECT_EQ(gimbal_gradsync_create(comm.get(), parameters, 2, nullptr, &sync), GIMBAL_INVALID_ARGUMENT) << sentence;
      EXPECT_THAT(gimbal_last_error(), HasSubstr(sentence));
    };
    refused("", 4, GIMBAL_FLOAT32, "parameter 1 has no name");
    refused("w", 4, GIMBAL_FLOAT32, "parameter 1 has the name \"w\" of an earlier one");
    refused("v", 4, GIMBAL_INT32, "allowed are the floating types, 6 to 11");
    const gimbal_gradsync_parameter_t empty = {"empty", 0, GIMBAL_FLOAT32};
    gimbal_gradsync_t none = nullptr;
    EXPECT_EQ(gimbal_gradsync_create(comm.get(), &empty, 1, nullptr, &none), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("no parameter has any elements"));
    EXPECT_EQ(gimbal_gradsync_step_end(none, 1), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("the synchronizer is NULL"));

    Sync sync({0, 1, context.rendezvous + "-second"}, small_buckets());
    EXPECT_EQ(gimbal_gradsync_ready(sync.get(), 5, nullptr), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("parameter is 5; there are 5"));
    EXPECT_EQ(gimbal_gradsync_wait(sync.get(), 0), GIMBAL_INVALID_USAGE);
    EXPECT_EQ(gimbal_gradsync_weight(sync.get(), 2), GIMBAL_INVALID_USAGE);
    EXPECT_EQ(gimbal_gradsync_step_end(sync.get(), 2), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(gimbal_gradsync_join(sync.get()), GIMBAL_INVALID_USAGE);
    ASSERT_EQ(gimbal_gradsync_ready(sync.get(), 0, nullptr), GIMBAL_OK);
    EXPECT_EQ(gimbal_gradsync_ready(sync.get(), 0, nullptr), GIMBAL_INVALID_USAGE);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("parameter \"first.weight\" is ready for the second time in this step"));
  });
}

}  // namespace
}  // namespace gimbal::test
