// Completion channels and asynchronous events: real descriptors, one event for each arming.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>

#include "tests/support/scoped_environment.h"
#include "tests/unit/hostile_verbs/verbs_side.h"

namespace gimbal::testing {
namespace {

bool is_readable(int fd, int timeout_ms) {
  pollfd entry = {fd, POLLIN, 0};
  return poll(&entry, 1, timeout_ms) == 1;
}

void take_event(VerbsSide& side) {
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  ASSERT_EQ(ibv_get_cq_event(side.channel(), &cq, &cookie), 0);
  EXPECT_EQ(cq, side.cq());
  ibv_ack_cq_events(cq, 1);
}

TEST(HostileVerbsEvents, AnArmedQueueMakesItsChannelReadableOnce) {
  const VerbsPair pair = connected_pair();
  ASSERT_EQ(ibv_req_notify_cq(pair.b->cq(), 0), 0);
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(pair.b->receive(), 0);
    ASSERT_EQ(pair.a->write({.immediate = i}, pair.to_b), 0);
  }
  ASSERT_TRUE(is_readable(pair.b->channel()->fd, 10'000));
  take_event(*pair.b);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(pair.b->completion().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(is_readable(pair.b->channel()->fd, 0)) << "the second completion met a queue that was not armed";
}

TEST(HostileVerbsEvents, ACompletionFromBeforeTheArmingRaisesNone) {
  const VerbsPair pair = connected_pair();
  ASSERT_EQ(pair.a->write({.id = 1}, pair.to_b), 0);
  ASSERT_EQ(pair.a->write({.id = 2}, pair.to_b), 0);
  ASSERT_EQ(pair.a->completion().wr_id, 1u);
  ASSERT_EQ(pair.a->completion().wr_id, 2u);
  ASSERT_EQ(ibv_req_notify_cq(pair.a->cq(), 0), 0);
  EXPECT_FALSE(is_readable(pair.a->channel()->fd, 0));
}

TEST(HostileVerbsEvents, AQueueArmedForSolicitedOnesSleepsThroughOthers) {
  const VerbsPair pair = connected_pair();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(pair.b->receive(), 0);
  ASSERT_EQ(ibv_req_notify_cq(pair.b->cq(), 1), 0);
  ASSERT_EQ(pair.a->write({.immediate = 1}, pair.to_b), 0);
  ASSERT_EQ(pair.b->completion().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(is_readable(pair.b->channel()->fd, 0));
  ASSERT_EQ(pair.a->write({.flags = IBV_SEND_SOLICITED, .immediate = 2}, pair.to_b), 0);
  EXPECT_TRUE(is_readable(pair.b->channel()->fd, 10'000));
  take_event(*pair.b);
}

TEST(HostileVerbsEvents, WithoutBlockingTheCallsSayAgain) {
  VerbsSide side;
  for (const int fd : {side.channel()->fd, side.context()->async_fd}) ASSERT_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  ibv_async_event event = {};
  EXPECT_EQ(ibv_get_cq_event(side.channel(), &cq, &cookie), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(ibv_get_async_event(side.context(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(HostileVerbsEvents, AnEventThatIsNotAcknowledgedKeepsItsQueue) {
  const VerbsPair pair = connected_pair();
  ibv_cq* const cq = ibv_create_cq(pair.a->context(), 4, nullptr, pair.a->channel(), 0);
  ASSERT_NE(cq, nullptr);
  ASSERT_EQ(ibv_req_notify_cq(pair.a->cq(), 0), 0);
  ASSERT_EQ(pair.a->write({}, pair.to_b), 0);
  ibv_cq* told = nullptr;
  void* cookie = nullptr;
  ASSERT_EQ(ibv_get_cq_event(pair.a->channel(), &told, &cookie), 0);
  EXPECT_EQ(told, pair.a->cq());
  EXPECT_EQ(ibv_destroy_cq(told), EBUSY);
  ibv_ack_cq_events(told, 1);
  EXPECT_EQ(ibv_destroy_cq(cq), 0) << "which had none";
}

}  // namespace
}  // namespace gimbal::testing
