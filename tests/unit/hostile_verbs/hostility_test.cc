// What a seed and a plan do: everything that the specification allows, and the faults that a test asks for.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "tests/support/scoped_environment.h"
#include "tests/unit/hostile_verbs/verbs_side.h"

namespace gimbal::testing {
namespace {

using test::ScopedEnvironment;

uint64_t watch(VerbsSide& side, size_t at) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(side.memory().data() + at)).load(std::memory_order_acquire);
}

void set_word(VerbsSide& side, size_t at, uint64_t value) { std::memcpy(side.memory().data() + at, &value, sizeof(value)); }

#ifdef __SANITIZE_THREAD__
// The planted mistake below, of which no seed is needed here: the flag tells of no other word.
void read_what_a_flag_tells_of() {
  constexpr size_t kFlag = 8192;
  const VerbsPair pair = connected_pair();
  set_word(*pair.a, 0, 7);
  set_word(*pair.a, kFlag, 1);
  pair.a->write({.bytes = 8, .flags = 0}, pair.to_b);
  pair.a->write({.from = kFlag, .to = kFlag}, pair.to_b);
  const Deadline deadline = Deadline::after_ms(10'000);
  while (watch(*pair.b, kFlag) != 1 && !deadline.passed()) std::this_thread::yield();
  uint64_t data = 0;
  std::memcpy(&data, pair.b->memory().data(), sizeof(data));
  std::exit(data == 7 ? 0 : 1);
}

TEST(HostileVerbsDeathTest, ThreadSanitizerReportsWhoTakesAFlagForTheDatasArrival) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr int kRaceFound = 66;
  EXPECT_EXIT(read_what_a_flag_tells_of(), ::testing::ExitedWithCode(kRaceFound), "data race");
}
#else
// The planted mistake: data, then a flag by a write of its own, and a receiver who takes the flag for the data's arrival.
// Returns whether it was punished.
bool flag_came_before_data() {
  constexpr size_t kFlag = 8192;
  const VerbsPair pair = connected_pair();
  for (uint64_t round = 1; round <= 20; ++round) {
    for (size_t word = 0; word < 64; ++word) set_word(*pair.a, word * 8, round);
    set_word(*pair.a, kFlag, round);
    if (pair.a->write({.bytes = 512, .flags = 0}, pair.to_b) != 0) return false;
    if (pair.a->write({.from = kFlag, .to = kFlag}, pair.to_b) != 0) return false;
    const Deadline deadline = Deadline::after_ms(10'000);
    while (watch(*pair.b, kFlag) != round && !deadline.passed()) std::this_thread::yield();
    for (size_t word = 0; word < 64; ++word) {
      if (watch(*pair.b, word * 8) != round) return true;
    }
    if (pair.a->completion().status != IBV_WC_SUCCESS) return false;
  }
  return false;
}

// 8 of 10 seeds do on an idle machine; on a busy one the receiver may sleep while the data follows.
TEST(HostileVerbsSeed, ADependenceOnTheOrderOfWritesIsPunishedWithinThirtySeeds) {
  bool punished = false;
  for (int seed = 1; seed <= 30 && !punished; ++seed) {
    const ScopedEnvironment environment("HOSTILE_VERBS_SEED", std::to_string(seed));
    punished = flag_came_before_data();
  }
  EXPECT_TRUE(punished);
}

TEST(HostileVerbsSeed, WithoutOneTheSameDependenceGoesUnpunished) {
  const ScopedEnvironment environment("HOSTILE_VERBS_SEED", std::nullopt);
  EXPECT_FALSE(flag_came_before_data());
}

TEST(HostileVerbsSeed, OneWriteIsSeenInPartsOfWholeWords) {
  const ScopedEnvironment environment("HOSTILE_VERBS_SEED", "3");
  const VerbsPair pair = connected_pair();
  constexpr uint64_t kOld = 0;
  constexpr uint64_t kNew = 0x1111'1111'1111'1111;
  bool seen_in_parts = false;
  for (int round = 0; round < 50 && !seen_in_parts; ++round) {
    const size_t at = static_cast<size_t>(round) * 4096;
    for (size_t word = 0; word < 512; ++word) set_word(*pair.a, word * 8, kNew);
    ASSERT_EQ(pair.a->write({.to = at, .bytes = 4096}, pair.to_b), 0);
    const Deadline deadline = Deadline::after_ms(10'000);
    size_t arrived = 0;
    for (; arrived < 512 && !deadline.passed(); seen_in_parts = seen_in_parts || (arrived > 0 && arrived < 512)) {
      arrived = 0;
      for (size_t word = 0; word < 512; ++word) {
        const uint64_t value = watch(*pair.b, at + word * 8);
        ASSERT_TRUE(value == kOld || value == kNew) << "a torn word";
        arrived += value == kNew ? 1 : 0;
      }
    }
    ASSERT_EQ(pair.a->completion().status, IBV_WC_SUCCESS);
  }
  EXPECT_TRUE(seen_in_parts);
}

TEST(HostileVerbsSeed, ASendersCompletionMayComeBeforeTheBytesAreInMemory) {
  bool was_early = false;
  for (int seed = 1; seed <= 100 && !was_early; ++seed) {
    const ScopedEnvironment environment("HOSTILE_VERBS_SEED", std::to_string(seed));
    const VerbsPair pair = connected_pair();
    set_word(*pair.a, 0, 7);
    ASSERT_EQ(pair.a->write({}, pair.to_b), 0);
    ASSERT_EQ(pair.a->completion().status, IBV_WC_SUCCESS);
    was_early = watch(*pair.b, 0) != 7;
  }
  EXPECT_TRUE(was_early);
}
#endif

TEST(HostileVerbsPlan, FailsTheNthCall) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "reg_mr@2=ENOMEM,create_qp@2=EINVAL,create_cq@2=ENOMEM");
  VerbsSide side;  // makes one of each
  EXPECT_EQ(ibv_reg_mr(side.pd(), side.memory().data(), 64, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  ibv_mr* const third = ibv_reg_mr(side.pd(), side.memory().data(), 64, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(ibv_dereg_mr(third), 0);
  EXPECT_EQ(ibv_create_cq(side.context(), 4, nullptr, nullptr, 0), nullptr);
  ibv_qp_init_attr attributes = {};
  EXPECT_EQ(ibv_create_qp(side.pd(), &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(HostileVerbsPlan, AFullQueueStopsAListAtTheRequestThatIsNamed) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "post_send@2=ENOMEM");
  const VerbsPair pair = connected_pair();
  ibv_send_wr second = {};
  second.opcode = IBV_WR_RDMA_WRITE;
  ibv_send_wr first = second;
  first.next = &second;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(pair.a->qp(), &first, &bad), ENOMEM);
  EXPECT_EQ(bad, &second);
}

TEST(HostileVerbsPlan, LimitsWhatMayBeRegistered) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "memlock=8K");
  VerbsSide side({.memory_bytes = 8192});
  EXPECT_EQ(ibv_reg_mr(side.pd(), side.memory().data(), 1, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  side.deregister();
  ibv_mr* const region = ibv_reg_mr(side.pd(), side.memory().data(), 1, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(region, nullptr) << "what is deregistered counts no longer";
  EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST(HostileVerbsPlan, CutsALinkInTheMiddle) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "link_down@3=hostile1/1");
  const VerbsPair other = connected_pair();
  const VerbsPair pair = connected_pair({.device = 1});
  for (uint64_t i = 1; i <= 2; ++i) {
    ASSERT_EQ(pair.a->write({.id = i}, pair.to_b), 0);
    ASSERT_EQ(pair.a->completion().status, IBV_WC_SUCCESS);
  }
  std::set<ibv_wc_status> statuses;
  for (uint64_t i = 3; i <= 4; ++i) ASSERT_EQ(pair.a->write({.id = i}, pair.to_b), 0);
  for (int i = 0; i < 2; ++i) statuses.insert(pair.a->completion().status);
  EXPECT_TRUE(statuses.count(IBV_WC_RETRY_EXC_ERR) == 1 || statuses.count(IBV_WC_WR_FLUSH_ERR) == 1);
  ibv_async_event event = {};
  ASSERT_EQ(ibv_get_async_event(pair.b->context(), &event), 0) << "the port's other users hear of it too";
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(event.element.port_num, 1);
  ibv_port_attr attributes = {};
  ASSERT_EQ(ibv_query_port(pair.b->context(), 1, &attributes), 0);
  EXPECT_EQ(attributes.state, IBV_PORT_DOWN);

  for (uint64_t i = 1; i <= 4; ++i) {
    ASSERT_EQ(other.a->write({.id = i}, other.to_b), 0);
    ASSERT_EQ(other.a->completion().status, IBV_WC_SUCCESS) << "another device's link stays";
  }
}

TEST(HostileVerbsPlan, BreaksAQueuePairInTheMiddle) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "qp_error@2=hostile0");
  const VerbsPair pair = connected_pair();
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(pair.a->write({.id = i}, pair.to_b), 0);
  std::vector<ibv_wc_status> statuses;
  for (int i = 0; i < 3; ++i) statuses.push_back(pair.a->completion().status);
  EXPECT_EQ(statuses.back(), IBV_WC_WR_FLUSH_ERR);
  EXPECT_NE(statuses[1], IBV_WC_SUCCESS);
  ibv_async_event event = {};
  ASSERT_EQ(ibv_get_async_event(pair.a->context(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
}

TEST(HostileVerbsPlan, MayTakeAllDevicesAway) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "devices=0");
  int count = -1;
  ibv_device** const list = ibv_get_device_list(&count);
  EXPECT_EQ(count, 0);
  ibv_free_device_list(list);
}

TEST(HostileVerbsPlan, OnInfinibandPortsHaveALid) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "link=infiniband");
  VerbsSide side;
  ibv_port_attr attributes = {};
  ASSERT_EQ(ibv_query_port(side.context(), 1, &attributes), 0);
  EXPECT_EQ(attributes.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_NE(attributes.lid, 0);
  const VerbsPair pair = connected_pair({}, {.gid_index = 0});
  ASSERT_EQ(pair.a->write({}, pair.to_b), 0);
  EXPECT_EQ(pair.a->completion().status, IBV_WC_SUCCESS);
}

TEST(HostileVerbsPlan, ThatCannotBeReadLeavesNoDevices) {
  for (const char* const text :
       {"link_down", "reg_mr@0=ENOMEM", "reg_mr@1=E2BIG", "unmake_qp@1=EIO", "link_down@1=hostile0", "mtu=1000", "devices=3"}) {
    const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", text);
    EXPECT_EQ(ibv_get_device_list(nullptr), nullptr) << text;
  }
}

}  // namespace
}  // namespace gimbal::testing
