// send and recv between pairs of ranks.
#include <gmock/gmock.h>

#include <numeric>

#include "tests/support/expect_ok.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Messages : public RanksTest, public testing::WithParamInterface<RankKind> {
 protected:
  static void run(int32_t ranks, const std::function<void(Communicator&)>& function) {
    run_ranks(GetParam(), ranks, [&](const RankContext& context) {
      Communicator communicator(context);
      function(communicator);
    });
  }
};

gimbal_status_t send(Communicator& communicator, const std::vector<int32_t>& values, int32_t peer) {
  return gimbal_send(values.data(), values.size(), GIMBAL_INT32, peer, communicator.get(), nullptr);
}

gimbal_status_t receive(Communicator& communicator, std::vector<int32_t>& values, int32_t peer) {
  return gimbal_recv(values.data(), values.size(), GIMBAL_INT32, peer, communicator.get(), nullptr);
}

TEST_P(Messages, ArriveInOrderAtEverySize) {
  run(2, [](Communicator& communicator) {
    for (const size_t count : {0, 1, 8187, 8188, 8189, 100'000, 2, 1'000'000}) {
      std::vector<int32_t> values(count);
      if (communicator.rank() == 0) {
        std::iota(values.begin(), values.end(), static_cast<int32_t>(count));
        expect_ok(send(communicator, values, 1));
      } else {
        expect_ok(receive(communicator, values, 0));
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], static_cast<int32_t>(count + i)) << count;
      }
    }
  });
}

TEST_P(Messages, PassAroundARing) {
  constexpr int32_t kRanks = 5;
  run(kRanks, [](Communicator& communicator) {
    const int32_t rank = communicator.rank();
    std::vector<int32_t> token(1000, 1);
    for (int round = 0; round < 3; ++round) {
      if (rank == 0) expect_ok(send(communicator, token, 1));
      expect_ok(receive(communicator, token, (rank + kRanks - 1) % kRanks));
      for (int32_t& value : token) ++value;
      if (rank != 0) expect_ok(send(communicator, token, (rank + 1) % kRanks));
    }
    if (rank == 0) {
      EXPECT_EQ(token, std::vector<int32_t>(1000, 1 + 3 * kRanks));
    }
  });
}

TEST_P(Messages, BothSendFirstWhenTheSendsAreStarted) {
  run(2, [](Communicator& communicator) {
    constexpr size_t kCount = 1'000'000;
    const std::vector<int32_t> sent(kCount, communicator.rank() + 10);
    std::vector<int32_t> received(kCount);
    const int32_t peer = 1 - communicator.rank();
    gimbal_request_t request = nullptr;
    expect_ok(gimbal_send_start(sent.data(), kCount, GIMBAL_INT32, peer, communicator.get(), nullptr, &request));
    expect_ok(receive(communicator, received, peer));
    expect_ok(gimbal_wait(&request));
    EXPECT_EQ(received, std::vector<int32_t>(kCount, peer + 10));
  });
}

TEST_P(Messages, GoBetweenCollectivesWithoutDisturbingThem) {
  run(3, [](Communicator& communicator) {
    for (int32_t round = 0; round < 50; ++round) {
      std::vector<int32_t> value(static_cast<size_t>(round) * 100, round);
      if (communicator.rank() == 0) expect_ok(send(communicator, value, 2));
      int32_t sum = 1;
      communicator.all_reduce(&sum, &sum, 1, GIMBAL_INT32, GIMBAL_SUM);
      EXPECT_EQ(sum, 3);
      std::vector<int32_t> received(value.size());
      if (communicator.rank() == 2) {
        expect_ok(receive(communicator, received, 0));
        EXPECT_EQ(received, value);
      }
    }
  });
}

TEST_P(Messages, OtherCountIsAMismatchOnBothSides) {
  run(2, [](Communicator& communicator) {
    std::vector<int32_t> values(communicator.rank() == 0 ? 7 : 5);
    // The sender may be done before the receiver looks; it learns at its next call.
    gimbal_status_t status = communicator.rank() == 0 ? send(communicator, values, 1) : receive(communicator, values, 0);
    if (communicator.rank() == 0 && status == GIMBAL_OK) status = gimbal_barrier(communicator.get(), nullptr);
    EXPECT_EQ(status, GIMBAL_MISMATCH);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("5 elements"), HasSubstr("7 elements"), HasSubstr("rank 0")));
    EXPECT_EQ(gimbal_comm_status(communicator.get()), GIMBAL_MISMATCH);
  });
}

TEST_P(Messages, PeerThatIsNoneIsRefused) {
  run(2, [](Communicator& communicator) {
    int32_t value = 0;
    for (const int32_t peer : {-1, 2, communicator.rank()}) {
      EXPECT_EQ(gimbal_send(&value, 1, GIMBAL_INT32, peer, communicator.get(), nullptr), GIMBAL_INVALID_ARGUMENT) << peer;
      EXPECT_THAT(gimbal_last_error(), HasSubstr("peer is " + std::to_string(peer)));
    }
    EXPECT_EQ(gimbal_recv(nullptr, 1, GIMBAL_INT32, 1 - communicator.rank(), communicator.get(), nullptr),
              GIMBAL_INVALID_ARGUMENT);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Messages, testing::ValuesIn(rank_kinds()), kind_test_name);

}  // namespace
}  // namespace gimbal::test
