// What arrives, whole and in order: every kind of request, without a seed and with some.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/scoped_environment.h"
#include "tests/unit/hostile_verbs/verbs_side.h"

namespace gimbal::testing {
namespace {

// The seed; 0 is an adapter without malice.
class HostileVerbsTransfers : public ::testing::TestWithParam<int> {
 private:
  test::ScopedEnvironment seed_{"HOSTILE_VERBS_SEED", std::to_string(GetParam())};
};

bool equal(VerbsSide& a, size_t from, VerbsSide& b, size_t to, size_t bytes) {
  return std::equal(a.memory().begin() + from, a.memory().begin() + from + bytes, b.memory().begin() + to);
}

TEST_P(HostileVerbsTransfers, AWriteWithImmediateDataIsWholeWhenItsCompletionIsThere) {
  const VerbsPair pair = connected_pair();
  for (const uint32_t bytes : {0U, 1U, 7U, 8U, 63U, 4096U, 4097U, 65536U, 500'001U}) {
    ASSERT_EQ(pair.b->receive(0, 0, bytes), 0);
    pair.a->fill(3, bytes, static_cast<uint8_t>(bytes + 1));
    ASSERT_EQ(pair.a->write({.from = 3, .to = 5, .bytes = bytes, .immediate = 77 + bytes}, pair.to_b), 0);
    const ibv_wc received = pair.b->completion();
    ASSERT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(ntohl(received.imm_data), 77 + bytes);
    EXPECT_EQ(received.byte_len, bytes);
    EXPECT_EQ(received.wr_id, bytes);
    EXPECT_TRUE(equal(*pair.a, 3, *pair.b, 5, bytes)) << bytes << " bytes";
    EXPECT_EQ(pair.a->completion().status, IBV_WC_SUCCESS);
  }
}

TEST_P(HostileVerbsTransfers, AnImmediateSpeaksForAllEarlierWritesOfItsQueuePair) {
  const VerbsPair pair = connected_pair();
  constexpr uint32_t kBytes = 3000;
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(pair.b->receive(), 0);
    pair.a->fill(0, 5 * kBytes, static_cast<uint8_t>(round));
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_EQ(pair.a->write({.from = i * kBytes, .to = i * kBytes, .bytes = kBytes, .flags = 0}, pair.to_b), 0);
    }
    ASSERT_EQ(pair.a->write({.bytes = 0, .immediate = 1}, pair.to_b), 0);
    ASSERT_EQ(pair.b->completion().status, IBV_WC_SUCCESS);
    ASSERT_TRUE(equal(*pair.a, 0, *pair.b, 0, 5 * kBytes)) << "round " << round;
    ASSERT_EQ(pair.a->completion().status, IBV_WC_SUCCESS);
  }
}

TEST_P(HostileVerbsTransfers, ASendFillsTheReceiveItMeets) {
  const VerbsPair pair = connected_pair();
  ASSERT_EQ(pair.b->receive(100, 20'000, 5), 0);
  pair.a->fill(0, 9000, 9);
  ASSERT_EQ(pair.a->send(0, 9000), 0);
  const ibv_wc received = pair.b->completion();
  ASSERT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.wr_id, 5u);
  EXPECT_EQ(received.byte_len, 9000u);
  EXPECT_TRUE(equal(*pair.a, 0, *pair.b, 100, 9000));
}

TEST_P(HostileVerbsTransfers, AListOfPiecesArrivesAsOne) {
  const VerbsPair pair = connected_pair();
  pair.a->fill(0, 30'000, 3);
  ibv_sge pieces[] = {pair.a->local(0, 5000), pair.a->local(5000, 1), pair.a->local(5001, 9000)};
  ibv_send_wr request = {};
  request.sg_list = pieces;
  request.num_sge = 3;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.wr.rdma.remote_addr = pair.to_b.memory;
  request.wr.rdma.rkey = pair.to_b.rkey;
  ASSERT_EQ(pair.b->receive(), 0);
  ASSERT_EQ(pair.a->post(request), 0);
  EXPECT_EQ(pair.b->completion().byte_len, 14'001u);
  EXPECT_TRUE(equal(*pair.a, 0, *pair.b, 0, 14'001));
}

TEST_P(HostileVerbsTransfers, InlineDataMayBeOverwrittenOnceItIsPosted) {
  const VerbsPair pair = connected_pair();
  ASSERT_EQ(pair.b->receive(), 0);
  pair.a->fill(0, 64, 11);
  pair.a->fill(1000, 64, 11);
  ASSERT_EQ(pair.a->write({.bytes = 64, .flags = IBV_SEND_INLINE, .immediate = 1}, pair.to_b), 0);
  pair.a->fill(0, 64, 200);
  ASSERT_EQ(pair.b->completion().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(equal(*pair.a, 1000, *pair.b, 0, 64));
}

TEST_P(HostileVerbsTransfers, CompletionsComeInTheOrderOfTheRequestsAndOnlyWhereAskedFor) {
  const VerbsPair pair = connected_pair();
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_EQ(pair.b->receive(0, 0, i), 0);
    const unsigned flags = i % 4 == 3 ? IBV_SEND_SIGNALED : 0;
    ASSERT_EQ(pair.a->write({.bytes = 8, .flags = flags, .immediate = static_cast<uint32_t>(i), .id = i}, pair.to_b), 0);
  }
  for (uint64_t i = 0; i < 40; ++i) {
    const ibv_wc received = pair.b->completion();
    ASSERT_EQ(received.wr_id, i);
    ASSERT_EQ(ntohl(received.imm_data), i);
  }
  for (uint64_t i = 3; i < 40; i += 4) ASSERT_EQ(pair.a->completion().wr_id, i);
  EXPECT_FALSE(pair.a->poll());
}

TEST_P(HostileVerbsTransfers, AListIsPostedByOneCall) {
  const VerbsPair pair = connected_pair();
  pair.a->fill(0, 64, 21);
  ibv_sge pieces[] = {pair.a->local(0, 32), pair.a->local(32, 32)};
  ibv_send_wr second = {};
  second.sg_list = &pieces[1];
  second.num_sge = 1;
  second.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  second.wr.rdma.remote_addr = pair.to_b.memory + 32;
  second.wr.rdma.rkey = pair.to_b.rkey;
  ibv_send_wr first = second;
  first.sg_list = &pieces[0];
  first.opcode = IBV_WR_RDMA_WRITE;
  first.wr.rdma.remote_addr = pair.to_b.memory;
  first.next = &second;
  ASSERT_EQ(pair.b->receive(), 0);
  ASSERT_EQ(pair.a->post(first), 0);
  ASSERT_EQ(pair.b->completion().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(equal(*pair.a, 0, *pair.b, 0, 64));
}

TEST_P(HostileVerbsTransfers, BothDirectionsShareAQueuePair) {
  const VerbsPair pair = connected_pair();
  const SideAddress to_a = pair.a->address();
  ASSERT_EQ(pair.a->receive(), 0);
  ASSERT_EQ(pair.b->receive(), 0);
  pair.a->fill(0, 10'000, 1);
  pair.b->fill(20'000, 10'000, 2);
  ASSERT_EQ(pair.a->write({.from = 0, .to = 0, .bytes = 10'000, .flags = 0, .immediate = 1}, pair.to_b), 0);
  ASSERT_EQ(pair.b->write({.from = 20'000, .to = 20'000, .bytes = 10'000, .flags = 0, .immediate = 2}, to_a), 0);
  ASSERT_EQ(ntohl(pair.a->completion().imm_data), 2u);
  ASSERT_EQ(ntohl(pair.b->completion().imm_data), 1u);
  EXPECT_TRUE(equal(*pair.a, 0, *pair.b, 0, 10'000));
  EXPECT_TRUE(equal(*pair.a, 20'000, *pair.b, 20'000, 10'000));
}

std::string seed_name(const ::testing::TestParamInfo<int>& seed) { return "Seed" + std::to_string(seed.param); }

INSTANTIATE_TEST_SUITE_P(Seeds, HostileVerbsTransfers, ::testing::Range(0, 6), seed_name);

}  // namespace
}  // namespace gimbal::testing
