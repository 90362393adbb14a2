// What ranks of different nodes tell each other, with ranks as objects of one process.
#include "runtime/remote_news.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>

#include "tests/unit/transport/join_ranks.h"
#include "transport/bytes.h"

namespace gimbal::testing {
namespace {

// Ranks 0 and 1 on one node, rank 2 on another.
class RemoteNewsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    meshes_ = make_meshes(3, "memory://" + unique_name());
    ASSERT_FALSE(HasFailure());
    for (Rank rank = 0; rank < 3; ++rank) {
      news_.push_back(std::make_unique<RemoteNews>(*meshes_[static_cast<size_t>(rank)], nodes_, rank));
    }
  }
  RemoteNews& news(Rank rank) { return *news_[static_cast<size_t>(rank)]; }
  // Until something has arrived at the rank and has been taken.
  void hear(Rank rank) {
    pollfd entry = {.fd = meshes_[static_cast<size_t>(rank)]->arrival_descriptor(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&entry, 1, static_cast<int>(kPatienceMs)), 1);
    const Status status = news(rank).update();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  const NodeShape nodes_ = NodeShape::consecutive(std::array<Rank, 2>{2, 1});
  std::vector<std::unique_ptr<Bootstrap>> meshes_;
  std::vector<std::unique_ptr<RemoteNews>> news_;
};

Signature all_reduce(uint32_t sequence, uint64_t count) {
  Call call;
  call.collective = Collective::kAllReduce;
  call.count = count;
  return make_signature(call, sequence);
}

TEST_F(RemoteNewsTest, AFaultReachesTheOtherNodeWithItsWords) {
  news(1).tell_fault(Status(Code::kMismatch, "counts differ"), 1);
  hear(2);
  ASSERT_TRUE(news(2).fault().has_value());
  EXPECT_EQ(news(2).fault()->status.code(), Code::kMismatch);
  EXPECT_EQ(news(2).fault()->status.message(), "counts differ");
  EXPECT_EQ(news(2).fault()->origin, 1);
}

TEST_F(RemoteNewsTest, TheFirstFaultStays) {
  news(0).tell_fault(Status(Code::kRemote, "first"), 0);
  hear(2);
  news(1).tell_fault(Status(Code::kTimeout, "second"), 1);
  hear(2);
  EXPECT_EQ(news(2).fault()->status.message(), "first");
}

TEST_F(RemoteNewsTest, NothingIsToldInsideANode) {
  news(0).tell_departure();
  hear(2);
  EXPECT_TRUE(news(2).has_departed(0));
  EXPECT_FALSE(news(2).has_departed(1));
  ASSERT_TRUE(news(1).update().ok());
  EXPECT_FALSE(news(1).has_departed(0)) << "the node's memory tells that";
}

TEST_F(RemoteNewsTest, AnotherCallUnderTheSameNumberIsADifference) {
  news(0).announce(all_reduce(7, 100));
  hear(2);
  EXPECT_EQ(news(2).announced(0), all_reduce(7, 100));
  EXPECT_FALSE(news(2).find_difference(all_reduce(7, 100)).has_value());
  EXPECT_FALSE(news(2).find_difference(all_reduce(8, 5)).has_value()) << "rank 0 has not come to number 8";
  const auto difference = news(2).find_difference(all_reduce(7, 200));
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->peer, 0);
  EXPECT_EQ(difference->theirs, all_reduce(7, 100));
}

TEST_F(RemoteNewsTest, AnOperationIsAnnouncedOnce) {
  news(2).announce(all_reduce(3, 1));
  news(2).announce(all_reduce(3, 1));
  ASSERT_TRUE(meshes_[2]->send(0, as_bytes("behind them"), soon()).ok());
  ASSERT_TRUE(meshes_[0]->receive(2, soon()).ok());
  const Result<std::vector<Bootstrap::News>> arrived = meshes_[0]->take_news();
  ASSERT_TRUE(arrived.ok()) << arrived.status().message();
  EXPECT_EQ(arrived->size(), 1u);
}

TEST_F(RemoteNewsTest, WhatNoRankSendsIsAnErrorThatNamesTheSender) {
  meshes_[0]->post(std::array<Rank, 1>{2}, as_bytes("\x09nonsense"));
  pollfd entry = {.fd = meshes_[2]->arrival_descriptor(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&entry, 1, static_cast<int>(kPatienceMs)), 1);
  const Status status = news(2).update();
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_EQ(status.message(), "rank 0 sent news that no rank sends");
}

}  // namespace
}  // namespace gimbal::testing
