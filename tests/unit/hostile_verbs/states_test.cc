// What the stand-in refuses before a byte moves: states, limits, objects in use.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/scoped_environment.h"
#include "tests/unit/hostile_verbs/verbs_side.h"

namespace gimbal::testing {
namespace {

using test::ScopedEnvironment;

TEST(HostileVerbsStates, GoOnlyForwards) {
  VerbsSide side;
  const SideAddress self = side.address();
  EXPECT_EQ(side.make_ready_to_send(), EINVAL) << "from RESET";
  EXPECT_EQ(side.make_ready_to_receive(self), EINVAL) << "from RESET";
  ASSERT_EQ(side.initialise(), 0);
  EXPECT_EQ(side.initialise(), EINVAL) << "twice";
  EXPECT_EQ(side.make_ready_to_send(), EINVAL) << "from INIT";
  ASSERT_EQ(side.make_ready_to_receive(self), 0);
  ASSERT_EQ(side.make_ready_to_send(), 0);
  ASSERT_TRUE(side.break_off());
  EXPECT_EQ(side.make_ready_to_send(), EINVAL) << "from ERR";
}

TEST(HostileVerbsStates, AChangeThatLeavesOutWhatItNeedsIsRefused) {
  VerbsSide side;
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(side.qp(), &attributes, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
}

TEST(HostileVerbsStates, ReceivesMayBePostedFromInitAndSendsFromReadyToSend) {
  VerbsSide side;
  EXPECT_EQ(side.receive(), EINVAL);
  ASSERT_EQ(side.initialise(), 0);
  EXPECT_EQ(side.receive(), 0);
  ASSERT_EQ(side.make_ready_to_receive(side.address()), 0);
  EXPECT_EQ(side.send(0, 8), EINVAL);
  ASSERT_EQ(side.make_ready_to_send(), 0);
  EXPECT_EQ(side.send(0, 8), 0);
}

TEST(HostileVerbsStates, APathMtuAboveThePortsIsRefused) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "mtu=1024");
  VerbsSide side;
  ASSERT_EQ(side.initialise(), 0);
  EXPECT_EQ(side.make_ready_to_receive(side.address(), {.mtu = IBV_MTU_2048}), EINVAL);
  EXPECT_EQ(side.make_ready_to_receive(side.address(), {.mtu = IBV_MTU_1024}), 0);
}

TEST(HostileVerbsStates, AnEmptyPlaceOfTheGidTableIsRefused) {
  VerbsSide side;
  ibv_gid_entry entry = {};
  EXPECT_EQ(ibv_query_gid_ex(side.context(), 1, 9, &entry, 0), ENODATA);
  ASSERT_EQ(side.initialise(), 0);
  EXPECT_EQ(side.make_ready_to_receive(side.address(), {.gid_index = 9}), EINVAL);
}

TEST(HostileVerbsStates, InlineDataAboveTheLimitIsRefused) {
  const VerbsPair pair = connected_pair({.inline_bytes = 16});
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = pair.a->cq();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 257};
  EXPECT_EQ(ibv_create_qp(pair.a->pd(), &attributes), nullptr) << "more than the device has";
  EXPECT_EQ(pair.a->write({.bytes = 17, .flags = IBV_SEND_INLINE}, pair.to_b), EINVAL);
  EXPECT_EQ(pair.a->write({.bytes = 16, .flags = IBV_SEND_INLINE}, pair.to_b), 0);
}

TEST(HostileVerbsStates, ASendQueueIsFullUntilACompletionOfItIsPolled) {
  const VerbsPair pair = connected_pair({.requests = 2});
  ASSERT_EQ(pair.a->write({.flags = 0}, pair.to_b), 0);
  ASSERT_EQ(pair.a->write({.flags = IBV_SEND_SIGNALED}, pair.to_b), 0);
  EXPECT_EQ(pair.a->write({}, pair.to_b), ENOMEM);
  ASSERT_EQ(pair.a->completion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a->write({}, pair.to_b), 0) << "one completion gives the unsignalled requests before it back";
  EXPECT_EQ(pair.a->write({}, pair.to_b), 0);
}

TEST(HostileVerbsStates, AnObjectInUseIsNotRemoved) {
  VerbsSide side;
  EXPECT_EQ(ibv_destroy_cq(side.cq()), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(side.channel()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(side.pd()), EBUSY);
  EXPECT_EQ(ibv_close_device(side.context()), EBUSY);
}

TEST(HostileVerbsStates, OnlyMemoryThatIsThereIsRegistered) {
  VerbsSide side;
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(side.pd(), reinterpret_cast<void*>(0x1000), 4096, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(ibv_reg_mr(side.pd(), side.memory().data(), 64, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL) << "remote writes take local ones";
}

TEST(HostileVerbsDevices, AreTwoAndTheLastPortHasNoCable) {
  VerbsSide side({.device = 1});
  ibv_port_attr attributes = {};
  ASSERT_EQ(ibv_query_port(side.context(), 1, &attributes), 0);
  EXPECT_EQ(attributes.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(attributes.link_layer, IBV_LINK_LAYER_ETHERNET);
  ASSERT_EQ(ibv_query_port(side.context(), 2, &attributes), 0);
  EXPECT_EQ(attributes.state, IBV_PORT_DOWN);
  EXPECT_EQ(ibv_query_port(side.context(), 3, &attributes), EINVAL);
}

}  // namespace
}  // namespace gimbal::testing
