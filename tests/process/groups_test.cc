// Groups: what is recorded between start and end is launched together.
#include <gmock/gmock.h>

#include "tests/support/expect_ok.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kRanks = 3;
constexpr int32_t kSum = 1 + 2 + 3;  // of rank + 1

class Groups : public RanksTest, public testing::WithParamInterface<RankKind> {
 protected:
  static void run(int32_t ranks, const std::function<void(Communicator&)>& function,
                  gimbal_progress_t progress = GIMBAL_PROGRESS_THREAD) {
    run_ranks(GetParam(), ranks, [&](const RankContext& context) {
      gimbal_config_t config = rank_config(context);
      config.progress = progress;
      Communicator communicator(config);
      function(communicator);
    });
  }
};

void add_sum(gimbal_comm_t comm, std::vector<int32_t>& values) {
  expect_ok(gimbal_all_reduce(values.data(), values.data(), values.size(), GIMBAL_INT32, GIMBAL_SUM, comm, nullptr));
}

uint64_t operations_of(const Communicator& communicator) {
  gimbal_stats_t stats = GIMBAL_STATS_INIT;
  expect_ok(gimbal_comm_stats(communicator.get(), &stats));
  return stats.operations;
}

TEST_P(Groups, HundredSmallSumsBecomeOneOperation) {
  run(kRanks, [](Communicator& communicator) {
    std::vector<std::vector<int32_t>> values;
    for (size_t i = 0; i < 100; ++i) values.emplace_back(1 + i * 3, communicator.rank() + 1 + static_cast<int32_t>(i));
    const uint64_t before = operations_of(communicator);
    expect_ok(gimbal_group_start());
    for (std::vector<int32_t>& one : values) add_sum(communicator.get(), one);
    EXPECT_EQ(values[0][0], communicator.rank() + 1) << "nothing runs before the end";
    expect_ok(gimbal_group_end());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], std::vector<int32_t>(values[i].size(), kSum + kRanks * static_cast<int32_t>(i))) << i;
    }
    EXPECT_EQ(operations_of(communicator), before + 1);
  });
}

TEST_P(Groups, MixedOperationsKeepTheirTypesSizesAndOrder) {
  run(kRanks, [](Communicator& communicator) {
    std::vector<int32_t> small(3, communicator.rank() + 1);
    std::vector<int32_t> large(100'000, communicator.rank() + 1);
    std::vector<float> other_type(5, static_cast<float>(communicator.rank()));
    std::vector<int32_t> maximum(5, communicator.rank());
    int32_t from_root = communicator.rank() == 2 ? 42 : 0;
    expect_ok(gimbal_group_start());
    add_sum(communicator.get(), small);
    add_sum(communicator.get(), large);
    expect_ok(
        gimbal_all_reduce(other_type.data(), other_type.data(), 5, GIMBAL_FLOAT32, GIMBAL_SUM, communicator.get(), nullptr));
    expect_ok(gimbal_all_reduce(maximum.data(), maximum.data(), 5, GIMBAL_INT32, GIMBAL_MAX, communicator.get(), nullptr));
    expect_ok(gimbal_broadcast(&from_root, 1, GIMBAL_INT32, 2, communicator.get(), nullptr));
    expect_ok(gimbal_all_reduce(nullptr, nullptr, 0, GIMBAL_INT32, GIMBAL_SUM, communicator.get(), nullptr));
    expect_ok(gimbal_group_end());
    EXPECT_EQ(small, std::vector<int32_t>(3, kSum));
    EXPECT_EQ(large, std::vector<int32_t>(100'000, kSum));
    EXPECT_EQ(other_type, std::vector<float>(5, 3));
    EXPECT_EQ(maximum, std::vector<int32_t>(5, 2));
    EXPECT_EQ(from_root, 42);
  });
}

TEST_P(Groups, OutermostEndLaunches) {
  run(2, [](Communicator& communicator) {
    std::vector<int32_t> values(10, 1);
    expect_ok(gimbal_group_start());
    expect_ok(gimbal_group_start());
    add_sum(communicator.get(), values);
    expect_ok(gimbal_group_end());
    EXPECT_EQ(values[0], 1);
    expect_ok(gimbal_group_end());
    EXPECT_EQ(values, std::vector<int32_t>(10, 2));
    EXPECT_EQ(gimbal_group_end(), GIMBAL_INVALID_USAGE);
    expect_ok(gimbal_group_start());
    expect_ok(gimbal_group_end(), "an empty group");
  });
}

TEST_P(Groups, TwoCommunicatorsInOppositeOrderDoNotDeadlock) {
  for (const gimbal_progress_t progress : {GIMBAL_PROGRESS_THREAD, GIMBAL_PROGRESS_CALLER}) {
    for (const size_t count : {size_t{10}, size_t{300'000}}) {
      run(
          2,
          [count](Communicator& communicator) {
            gimbal_comm_t other = nullptr;
            expect_ok(gimbal_comm_split(communicator.get(), 0, 0, &other));
            std::vector<int32_t> first(count, 1);
            std::vector<int32_t> second(count, 5);
            expect_ok(gimbal_group_start());
            if (communicator.rank() == 0) {
              add_sum(communicator.get(), first);
              add_sum(other, second);
            } else {
              add_sum(other, second);
              add_sum(communicator.get(), first);
            }
            expect_ok(gimbal_group_end());
            EXPECT_EQ(first, std::vector<int32_t>(count, 2));
            EXPECT_EQ(second, std::vector<int32_t>(count, 10));
            expect_ok(gimbal_comm_destroy(other));
          },
          progress);
    }
  }
}

TEST_P(Groups, OtherPartsOfTheSameTotalAreAMismatchOnAllRanks) {
  run(2, [](Communicator& communicator) {
    const bool first = communicator.rank() == 0;
    std::vector<int32_t> a(first ? 3 : 4, 1);
    std::vector<int32_t> b(first ? 5 : 4, 1);
    expect_ok(gimbal_group_start());
    add_sum(communicator.get(), a);
    add_sum(communicator.get(), b);
    EXPECT_EQ(gimbal_group_end(), GIMBAL_MISMATCH);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("rank 0"), HasSubstr("rank 1"), HasSubstr("parts")));
    EXPECT_EQ(a[0], 1) << "no result";
  });
}

TEST_P(Groups, OtherNumberOfPartsIsAMismatchOnAllRanks) {
  run(2, [](Communicator& communicator) {
    std::vector<int32_t> a(3, 1);
    std::vector<int32_t> b(5, 1);
    expect_ok(gimbal_group_start());
    add_sum(communicator.get(), a);
    if (communicator.rank() == 0) add_sum(communicator.get(), b);
    EXPECT_EQ(gimbal_group_end(), GIMBAL_MISMATCH) << gimbal_last_error();
  });
}

TEST_P(Groups, StartedOperationsBeginAtTheEnd) {
  run(kRanks, [](Communicator& communicator) {
    std::vector<int32_t> started(100'000, communicator.rank() + 1);
    std::vector<int32_t> blocking(10, communicator.rank() + 1);
    gimbal_request_t request = nullptr;
    expect_ok(gimbal_group_start());
    expect_ok(gimbal_all_reduce_start(started.data(), started.data(), started.size(), GIMBAL_INT32, GIMBAL_SUM,
                                      communicator.get(), nullptr, &request));
    EXPECT_EQ(request, nullptr);
    add_sum(communicator.get(), blocking);
    expect_ok(gimbal_group_end());
    EXPECT_EQ(blocking, std::vector<int32_t>(10, kSum));
    ASSERT_NE(request, nullptr);
    expect_ok(gimbal_wait(&request));
    EXPECT_EQ(started, std::vector<int32_t>(100'000, kSum));
  });
}

TEST_P(Groups, RingOfLargeMessagesDoesNotDeadlock) {
  for (const gimbal_progress_t progress : {GIMBAL_PROGRESS_THREAD, GIMBAL_PROGRESS_CALLER}) {
    run(
        kRanks,
        [](Communicator& communicator) {
          constexpr size_t kCount = 500'000;
          const std::vector<int32_t> sent(kCount, communicator.rank());
          std::vector<int32_t> received(kCount);
          const int32_t next = (communicator.rank() + 1) % kRanks;
          const int32_t previous = (communicator.rank() + kRanks - 1) % kRanks;
          expect_ok(gimbal_group_start());
          expect_ok(gimbal_send(sent.data(), kCount, GIMBAL_INT32, next, communicator.get(), nullptr));
          expect_ok(gimbal_recv(received.data(), kCount, GIMBAL_INT32, previous, communicator.get(), nullptr));
          expect_ok(gimbal_group_end());
          EXPECT_EQ(received, std::vector<int32_t>(kCount, previous));
        },
        progress);
  }
}

TEST_P(Groups, WrongArgumentsAreRefusedWhenTheyAreRecorded) {
  run(2, [](Communicator& communicator) {
    std::vector<int32_t> values(10, 1);
    expect_ok(gimbal_group_start());
    EXPECT_EQ(gimbal_all_reduce(nullptr, values.data(), 10, GIMBAL_INT32, GIMBAL_SUM, communicator.get(), nullptr),
              GIMBAL_INVALID_ARGUMENT);
    add_sum(communicator.get(), values);
    expect_ok(gimbal_group_end());
    EXPECT_EQ(values, std::vector<int32_t>(10, 2)) << "the others run";
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Groups, testing::ValuesIn(rank_kinds()), kind_test_name);

}  // namespace
}  // namespace gimbal::test
