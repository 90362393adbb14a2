// Started operations: their order, their handles, and who drives them.
#include <gmock/gmock.h>

#include "base/deadline.h"
#include "tests/support/expect_ok.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

constexpr int32_t kRanks = 3;
constexpr int32_t kSum = 1 + 2 + 3;  // of rank + 1

struct Driver {
  RankKind ranks;
  gimbal_progress_t progress;
};

std::string driver_name(const testing::TestParamInfo<Driver>& tested) {
  return rank_kind_name(tested.param.ranks) + (tested.param.progress == GIMBAL_PROGRESS_THREAD ? "_thread" : "_caller");
}

std::vector<Driver> drivers() {
  std::vector<Driver> all;
  for (const RankKind kind : rank_kinds()) {
    all.push_back({kind, GIMBAL_PROGRESS_THREAD});
    all.push_back({kind, GIMBAL_PROGRESS_CALLER});
  }
  return all;
}

class Requests : public RanksTest, public testing::WithParamInterface<Driver> {
 protected:
  // Runs the function as every rank with a communicator of the parameter's kind.
  static void run(int32_t ranks, const std::function<void(Communicator&)>& function) {
    run_ranks(GetParam().ranks, ranks, [&](const RankContext& context) {
      gimbal_config_t config = rank_config(context);
      config.progress = GetParam().progress;
      Communicator communicator(config);
      function(communicator);
    });
  }
};

gimbal_request_t start_sum(Communicator& communicator, const std::vector<int32_t>& send, std::vector<int32_t>& recv) {
  gimbal_request_t request = nullptr;
  expect_ok(gimbal_all_reduce_start(send.data(), recv.data(), send.size(), GIMBAL_INT32, GIMBAL_SUM, communicator.get(),
                                    nullptr, &request));
  return request;
}

TEST_P(Requests, ManyOutstandingOnesOfAllSizesGiveTheirOwnResults) {
  run(kRanks, [](Communicator& communicator) {
    constexpr size_t kCounts[] = {1, 7, 1000, 2000, 100'000, 0, 3};
    std::vector<std::vector<int32_t>> sends;
    std::vector<std::vector<int32_t>> recvs;
    for (size_t i = 0; i < 42; ++i) {
      sends.emplace_back(kCounts[i % std::size(kCounts)], communicator.rank() + 1 + static_cast<int32_t>(i));
      recvs.emplace_back(sends.back().size());
    }
    std::vector<gimbal_request_t> requests;
    for (size_t i = 0; i < sends.size(); ++i) requests.push_back(start_sum(communicator, sends[i], recvs[i]));
    for (gimbal_request_t& request : requests) {
      expect_ok(gimbal_wait(&request));
      EXPECT_EQ(request, nullptr);
    }
    for (size_t i = 0; i < sends.size(); ++i) {
      EXPECT_EQ(recvs[i], std::vector<int32_t>(sends[i].size(), kSum + kRanks * static_cast<int32_t>(i))) << i;
    }
  });
}

TEST_P(Requests, RunInOrderWithBlockingOperations) {
  run(kRanks, [](Communicator& communicator) {
    std::vector<int32_t> value(5000, communicator.rank() + 1);
    std::vector<int32_t> sum(5000);
    std::vector<int32_t> sum_of_sums(5000);
    for (int i = 0; i < 20; ++i) {
      gimbal_request_t first = start_sum(communicator, value, sum);
      // Reads what the started one writes, so it must come after it.
      communicator.all_reduce(sum.data(), sum_of_sums.data(), sum.size(), GIMBAL_INT32, GIMBAL_MAX);
      EXPECT_EQ(sum_of_sums, std::vector<int32_t>(5000, kSum));
      gimbal_request_t second = start_sum(communicator, sum_of_sums, sum);
      expect_ok(gimbal_wait(&second));
      expect_ok(gimbal_wait(&first));
      EXPECT_EQ(sum, std::vector<int32_t>(5000, kSum * kRanks));
    }
  });
}

TEST_P(Requests, TestSaysWhenOneHasCompleted) {
  run(kRanks, [](Communicator& communicator) {
    const std::vector<int32_t> send(200'000, communicator.rank() + 1);
    std::vector<int32_t> recv(send.size());
    gimbal_request_t request = start_sum(communicator, send, recv);
    int done = 0;
    while (done == 0) {
      ASSERT_NE(request, nullptr);
      ASSERT_EQ(gimbal_test(&request, &done), GIMBAL_OK) << gimbal_last_error();
    }
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(recv, std::vector<int32_t>(send.size(), kSum));
  });
}

TEST_P(Requests, HandlesThatNameNothingAreRefused) {
  run(2, [](Communicator& communicator) {
    gimbal_request_t none = nullptr;
    int done = 0;
    expect_ok(gimbal_wait(&none), "a NULL request");
    expect_ok(gimbal_test(&none, &done), "a NULL request");
    EXPECT_EQ(done, 1);
    EXPECT_EQ(gimbal_wait(nullptr), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(gimbal_test(&none, nullptr), GIMBAL_INVALID_ARGUMENT);
    const std::vector<int32_t> send(10);
    std::vector<int32_t> recv(10);
    gimbal_request_t request = start_sum(communicator, send, recv);
    gimbal_request_t stale = request;
    expect_ok(gimbal_wait(&request));
    EXPECT_EQ(gimbal_wait(&stale), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), testing::HasSubstr("request"));
    EXPECT_EQ(gimbal_test(&stale, &done), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(
        gimbal_all_reduce_start(send.data(), recv.data(), 1, GIMBAL_INT32, GIMBAL_SUM, communicator.get(), nullptr, nullptr),
        GIMBAL_INVALID_ARGUMENT);
  });
}

TEST_P(Requests, OutstandingAtDestroyAreAborted) {
  run_ranks(GetParam().ranks, 2, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.progress = GetParam().progress;
    auto communicator = std::make_unique<Communicator>(config);
    if (context.rank == 1) return;  // takes part in nothing
    const std::vector<int32_t> send(100'000);
    std::vector<int32_t> recv(send.size());
    gimbal_request_t first = start_sum(*communicator, send, recv);
    gimbal_request_t second = start_sum(*communicator, send, recv);
    communicator.reset();
    // The peer may have left before: then that is what the first one reports.
    EXPECT_THAT(gimbal_wait(&first), testing::AnyOf(GIMBAL_ABORTED, GIMBAL_REMOTE)) << gimbal_last_error();
    EXPECT_THAT(gimbal_wait(&second), testing::AnyOf(GIMBAL_ABORTED, GIMBAL_REMOTE)) << gimbal_last_error();
  });
}

// A request handle keeps its communicator connected; the peers must learn all the same that its owner has left.
TEST_P(Requests, KeptAfterDestroyDoNotHideThatTheirRankLeft) {
  run_ranks(GetParam().ranks, 2, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.progress = GetParam().progress;
    Communicator communicator(config);
    const std::string second_rendezvous = context.rendezvous + "-second";
    config.rendezvous = second_rendezvous.c_str();
    Communicator second(config);
    std::vector<int32_t> values(100'000);
    gimbal_request_t request = nullptr;
    if (context.rank == 0) {
      expect_ok(gimbal_recv_start(values.data(), 1, GIMBAL_INT32, 1, communicator.get(), nullptr, &request));
      expect_ok(gimbal_comm_destroy(communicator.get()));
    } else {
      EXPECT_EQ(
          gimbal_all_reduce(values.data(), values.data(), values.size(), GIMBAL_INT32, GIMBAL_SUM, communicator.get(), nullptr),
          GIMBAL_REMOTE)
          << gimbal_last_error();
    }
    expect_ok(gimbal_barrier(second.get(), nullptr));
    EXPECT_EQ(gimbal_wait(&request), context.rank == 0 ? GIMBAL_ABORTED : GIMBAL_OK);
  });
}

// A message that only its caller drives must move while the caller waits in a collective.
TEST_P(Requests, MessagesGoOnWhileTheirCallerWaitsInACollective) {
  run(2, [](Communicator& communicator) {
    std::vector<int32_t> message(2'000'000, 7);
    std::vector<int32_t> sum(1000, 1);
    if (communicator.rank() == 0) {
      gimbal_request_t request = nullptr;
      expect_ok(gimbal_send_start(message.data(), message.size(), GIMBAL_INT32, 1, communicator.get(), nullptr, &request));
      communicator.all_reduce(sum.data(), sum.data(), sum.size(), GIMBAL_INT32, GIMBAL_SUM);
      expect_ok(gimbal_wait(&request));
    } else {
      std::vector<int32_t> received(message.size());
      expect_ok(gimbal_recv(received.data(), received.size(), GIMBAL_INT32, 0, communicator.get(), nullptr));
      EXPECT_EQ(received, message);
      communicator.all_reduce(sum.data(), sum.data(), sum.size(), GIMBAL_INT32, GIMBAL_SUM);
    }
    EXPECT_EQ(sum, std::vector<int32_t>(1000, 2));
  });
}

TEST_P(Requests, TestFailsAtTheDeadlineWhenThePeersNeverCome) {
  run_ranks(GetParam().ranks, 2, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.progress = GetParam().progress;
    config.timeout_ms = 300;
    Communicator communicator(config);
    const std::vector<int32_t> send(10);
    std::vector<int32_t> recv(10);
    if (context.rank == 0) {
      gimbal_request_t request = start_sum(communicator, send, recv);
      int done = 0;
      gimbal_status_t status = GIMBAL_OK;
      const Deadline deadline = Deadline::after_ms(kTimeoutMs);
      while (done == 0 && status == GIMBAL_OK && !deadline.passed()) status = gimbal_test(&request, &done);
      EXPECT_EQ(status, GIMBAL_TIMEOUT) << gimbal_last_error();
      return;
    }
    const Deadline deadline = Deadline::after_ms(kTimeoutMs);
    while (gimbal_comm_status(communicator.get()) == GIMBAL_OK && !deadline.passed()) sched_yield();
    EXPECT_EQ(gimbal_comm_status(communicator.get()), GIMBAL_TIMEOUT);
  });
}

// The caller allocates while the progress thread looks up registered memory.
TEST_P(Requests, AllocationsMayChangeWhileOperationsAreUnderWay) {
  run(kRanks, [](Communicator& communicator) {
    for (int i = 0; i < 5; ++i) {
      void* memory = nullptr;
      constexpr size_t kCount = 50'000;
      expect_ok(gimbal_mem_alloc(communicator.get(), GIMBAL_MEMORY_HOST, kCount * sizeof(int32_t), &memory));
      const std::span<int32_t> values(static_cast<int32_t*>(memory), kCount);
      std::fill(values.begin(), values.end(), communicator.rank() + 1);
      gimbal_request_t request = nullptr;
      expect_ok(
          gimbal_all_reduce_start(memory, memory, kCount, GIMBAL_INT32, GIMBAL_SUM, communicator.get(), nullptr, &request));
      void* other = nullptr;
      expect_ok(gimbal_mem_alloc(communicator.get(), GIMBAL_MEMORY_HOST, 1, &other));
      EXPECT_EQ(values.front(), kSum) << "allocating comes after what was started";
      EXPECT_EQ(values.back(), kSum);
      expect_ok(gimbal_wait(&request));
      expect_ok(gimbal_mem_free(communicator.get(), memory));
      expect_ok(gimbal_mem_free(communicator.get(), other));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Requests, testing::ValuesIn(drivers()), driver_name);

}  // namespace
}  // namespace gimbal::test
