// What the conformance tests do not know: the layout, hostile peers, doorbells.
#include "transport/shm_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/transport/shm_pair.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;

TEST(ShmEndpoint, ASmallMessageSharesItsHeadersCacheLine) {
  const EndpointPair pair = make_shm_pair(1, 48, 2);
  const auto slot = pair.a->acquire(0, 48);
  ASSERT_TRUE(slot.ok() && slot->has_value());
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*slot)->data()) % 64, 16u);
  EXPECT_EQ(ShmEndpoint::lane_bytes(1, 48, 2), 128u + 2 * 64);
}

TEST(ShmEndpoint, RefusesAMessageLongerThanItsSlot) {
  const EndpointPair pair = make_shm_pair(1, 48, 2);
  const auto slot = pair.a->acquire(0, 8);
  ASSERT_TRUE(pair.a->commit(0, 8, 1).ok());
  const uint32_t hostile = 49;
  std::memcpy((*slot)->data() - 12, &hostile, sizeof(hostile));  // the header's byte count

  const Status status = pair.b->front(0).status();

  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_EQ(status.message(), "rank 0 broke the shared memory link: it sent a message of 49 bytes in a slot of 48");
  EXPECT_EQ(pair.b->acquire(0, 1).status().message(), status.message()) << "an error is final";
}

TEST(ShmEndpoint, RefusesReleasesOfMessagesThatWereNeverSent) {
  const EndpointPair pair = make_shm_pair(1, 48, 2);
  const auto memory = std::static_pointer_cast<ShmMemory>(pair.memory);
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(send_next(*pair.a, 0, i).value());
  const uint64_t hostile = 3;
  std::memcpy(memory->a_to_b.data(), &hostile, sizeof(hostile));
  EXPECT_THAT(pair.a->acquire(0, 1).status().message(), HasSubstr("it released 3 messages of 2"));
}

TEST(ShmEndpoint, RingsThePeerAfterCommitAndAfterRelease) {
  const EndpointPair pair = make_shm_pair(1, 48, 2);
  const auto memory = std::static_pointer_cast<ShmMemory>(pair.memory);
  memory->lot.sleepers.store(2);
  memory->doorbell_a.parked.store(1);
  memory->doorbell_b.parked.store(1);

  ASSERT_TRUE(send_next(*pair.a, 0, 0).value());
  EXPECT_EQ(memory->doorbell_b.bell.load(), 1u);
  ASSERT_TRUE(take_next(*pair.b, 0, 0).value());
  EXPECT_EQ(memory->doorbell_a.bell.load(), 1u);
}

TEST(ShmEndpoint, ReusesItsSlotsThousandsOfTimes) {
  const EndpointPair pair = make_shm_pair(1, 16, 3);
  const Status status = exchange(*pair.a, *pair.b, 10'000, 5);
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace gimbal::testing
