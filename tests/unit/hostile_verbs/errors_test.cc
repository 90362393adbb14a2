// What goes wrong as the specification has it: keys, bounds, rights, lost peers, and the flush that follows.
#include <gtest/gtest.h>

#include "tests/support/scoped_environment.h"
#include "tests/unit/hostile_verbs/verbs_side.h"

namespace gimbal::testing {
namespace {

// The request fails so, and with it both queue pairs: nothing posted later succeeds.
void expect_refused(const VerbsPair& pair, ibv_wc_status status) {
  EXPECT_EQ(pair.a->completion().status, status);
  ASSERT_EQ(pair.a->write({.flags = 0, .id = 9}, pair.to_b), 0) << "in the error state requests are taken, and flushed";
  const ibv_wc flushed = pair.a->completion();
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(flushed.wr_id, 9u);
}

TEST(HostileVerbsErrors, AKeyThatIsNoneIsARemoteAccessError) {
  VerbsPair pair = connected_pair();
  ASSERT_EQ(pair.b->receive(0, 0, 4), 0);
  SideAddress wrong = pair.to_b;
  wrong.rkey ^= 0x10;
  ASSERT_EQ(pair.a->write({}, wrong), 0);
  expect_refused(pair, IBV_WC_REM_ACCESS_ERR);
  const ibv_wc flushed = pair.b->completion();
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR) << "the responder's queue pair is lost too";
  EXPECT_EQ(flushed.wr_id, 4u);
  ibv_async_event event = {};
  ASSERT_EQ(ibv_get_async_event(pair.b->context(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  ibv_ack_async_event(&event);
}

TEST(HostileVerbsErrors, AByteBeyondTheRegionIsARemoteAccessErrorAndIsNotStored) {
  const VerbsPair pair = connected_pair({.memory_bytes = 4096});
  pair.a->fill(0, 16, 1);
  ASSERT_EQ(pair.a->write({.to = 4096 - 8, .bytes = 9}, pair.to_b), 0);
  expect_refused(pair, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair.b->memory()[4095], std::byte{0});
}

TEST(HostileVerbsErrors, ARegionWithoutTheRightIsARemoteAccessError) {
  const VerbsPair pair = connected_pair({.access = IBV_ACCESS_LOCAL_WRITE});
  ASSERT_EQ(pair.a->write({}, pair.to_b), 0);
  expect_refused(pair, IBV_WC_REM_ACCESS_ERR);
}

TEST(HostileVerbsErrors, ARegionOfAnotherDomainIsARemoteAccessError) {
  const VerbsPair pair = connected_pair();
  ibv_pd* const other = ibv_alloc_pd(pair.b->context());
  ibv_mr* const region = ibv_reg_mr(other, pair.b->memory().data(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  SideAddress there = pair.to_b;
  there.rkey = region->rkey;
  ASSERT_EQ(pair.a->write({}, there), 0);
  expect_refused(pair, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST(HostileVerbsErrors, ARegionThatIsGoneIsARemoteAccessError) {
  const VerbsPair pair = connected_pair();
  pair.b->deregister();
  ASSERT_EQ(pair.a->write({}, pair.to_b), 0);
  expect_refused(pair, IBV_WC_REM_ACCESS_ERR);
}

TEST(HostileVerbsErrors, ASourceWithoutAKeyIsALocalProtectionErrorAfterTheRequestsBeforeIt) {
  const VerbsPair pair = connected_pair();
  ASSERT_EQ(pair.a->write({.id = 1}, pair.to_b), 0);
  ibv_sge sge = pair.a->local(0, 8);
  sge.lkey ^= 1;
  ibv_send_wr request = {};
  request.wr_id = 2;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = pair.to_b.memory;
  request.wr.rdma.rkey = pair.to_b.rkey;
  ASSERT_EQ(pair.a->post(request), 0);
  EXPECT_EQ(pair.a->completion().status, IBV_WC_SUCCESS);
  const ibv_wc failed = pair.a->completion();
  EXPECT_EQ(failed.status, IBV_WC_LOC_PROT_ERR) << "unsignalled, and told all the same";
  EXPECT_EQ(failed.wr_id, 2u);
}

TEST(HostileVerbsErrors, ASendLongerThanItsReceiveFailsOnBothSides) {
  const VerbsPair pair = connected_pair();
  ASSERT_EQ(pair.b->receive(0, 10), 0);
  ASSERT_EQ(pair.a->send(0, 11), 0);
  EXPECT_EQ(pair.a->completion().status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(pair.b->completion().status, IBV_WC_LOC_LEN_ERR);
}

TEST(HostileVerbsErrors, ReceiverNotReadyEndsAfterItsRetries) {
  const VerbsPair pair = connected_pair({}, {.not_ready_retries = 3});
  ASSERT_EQ(pair.a->write({.immediate = 1}, pair.to_b), 0);
  EXPECT_EQ(pair.a->completion().status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(HostileVerbsErrors, ReceiverNotReadyWaitsForEverWithSevenRetries) {
  const VerbsPair pair = connected_pair();
  ASSERT_EQ(pair.a->write({.immediate = 1}, pair.to_b), 0);
  // A later write of another kind cannot overtake it: by the time that the receive is posted, the sender was told "not ready".
  EXPECT_FALSE(pair.a->poll());
  ASSERT_EQ(pair.b->receive(), 0);
  EXPECT_EQ(pair.b->completion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a->completion().status, IBV_WC_SUCCESS);
}

TEST(HostileVerbsErrors, AQueuePairInErrorFlushesEverythingInOrder) {
  VerbsSide side;
  ASSERT_TRUE(side.connect({.qp_number = 0xffff, .gid = side.address().gid, .memory = 0, .rkey = 0}, {.timeout = 0}));
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(side.write({.flags = 0, .id = i}, side.address()), 0);
  ASSERT_EQ(side.receive(0, 0, 100), 0);
  ASSERT_TRUE(side.break_off());
  std::vector<uint64_t> flushed;
  for (int i = 0; i < 6; ++i) {
    const ibv_wc wc = side.completion();
    ASSERT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    flushed.push_back(wc.wr_id);
  }
  EXPECT_EQ(flushed, (std::vector<uint64_t>{0, 1, 2, 3, 4, 100}));
}

struct Unreachable {
  const char* name;
  void (*spoil)(SideAddress& peer, PathOptions& path);
};

class HostileVerbsUnreachable : public ::testing::TestWithParam<Unreachable> {};

TEST_P(HostileVerbsUnreachable, EndsWithItsRetries) {
  VerbsSide a;
  VerbsSide b;
  SideAddress to_b = b.address();
  PathOptions path;
  GetParam().spoil(to_b, path);
  ASSERT_TRUE(a.connect(to_b, path));
  ASSERT_TRUE(b.connect(a.address()));
  ASSERT_EQ(a.write({}, to_b), 0);
  EXPECT_EQ(a.completion().status, IBV_WC_RETRY_EXC_ERR);
}

INSTANTIATE_TEST_SUITE_P(
    Addresses, HostileVerbsUnreachable,
    ::testing::Values(Unreachable{"AQueuePairThatIsNone", [](SideAddress& peer, PathOptions&) { peer.qp_number += 100; }},
                      Unreachable{"AGidOfNobody", [](SideAddress& peer, PathOptions&) { peer.gid.raw[14] = 99; }},
                      Unreachable{"AnotherSequenceNumber", [](SideAddress&, PathOptions& path) { path.psn = 8; }},
                      Unreachable{"AnotherVersionOfRoce", [](SideAddress&, PathOptions& path) { path.gid_index = 2; }}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(HostileVerbsErrors, APeerThatIsGoneEndsWithItsRetries) {
  VerbsPair pair = connected_pair();
  pair.b.reset();
  ASSERT_EQ(pair.a->write({}, pair.to_b), 0);
  EXPECT_EQ(pair.a->completion().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(HostileVerbsErrors, PacketsAboveTheReceiversPathMtuAreInvalid) {
  VerbsSide a;
  VerbsSide b;
  ASSERT_TRUE(a.connect(b.address(), {.mtu = IBV_MTU_4096}));
  ASSERT_TRUE(b.connect(a.address(), {.mtu = IBV_MTU_1024}));
  ASSERT_EQ(a.write({.bytes = 1024}, b.address()), 0);
  EXPECT_EQ(a.completion().status, IBV_WC_SUCCESS);
  ASSERT_EQ(a.write({.bytes = 1025}, b.address()), 0);
  EXPECT_EQ(a.completion().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(HostileVerbsErrors, ACompletionQueueThatRunsOverIsLost) {
  const VerbsPair pair = connected_pair({.completions = 2});
  ibv_pd* const pd = pair.a->pd();
  ASSERT_NE(pd, nullptr);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(pair.a->write({}, pair.to_b), 0);
  const Deadline deadline = Deadline::after_ms(10'000);
  ibv_async_event event = {};
  ASSERT_EQ(ibv_get_async_event(pair.a->context(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  ibv_wc wc = {};
  EXPECT_EQ(ibv_poll_cq(pair.a->cq(), 1, &wc), -1);
  EXPECT_FALSE(deadline.passed());
}

}  // namespace
}  // namespace gimbal::testing
