// What a verbs endpoint makes of notices in any order, and of those that no peer should send.
#include "transport/verbs/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;

constexpr SlotLayout kLayout = {.channels = 1, .slot_bytes = size_t{256} << 10, .window = 4};

VerbsImmediate chunk_notice(uint32_t sequence, uint8_t chunk) { return {.chunk = chunk, .sequence = sequence}; }

class VerbsArrivalsTest : public ::testing::Test {
 protected:
  // A chunk of a message of `bytes`, as an honest peer sends it.
  std::string add(uint32_t sequence, uint8_t chunk, size_t bytes) {
    const SlotHeader header = {.bytes = static_cast<uint32_t>(bytes), .sequence = sequence};
    return arrivals_.add(VerbsImmediate::unpack(chunk_notice(sequence, chunk).pack()), kLayout.piece(0, chunk, bytes).bytes,
                         kLayout, header);
  }

  VerbsArrivals arrivals_{kLayout.window};
};

TEST_F(VerbsArrivalsTest, AMessageIsThereWhenTheLastOfItsChunksIs) {
  const size_t bytes = 3 * kLayout.chunk_bytes();
  EXPECT_EQ(add(0, 2, bytes), "");
  EXPECT_EQ(add(0, 1, bytes), "");
  EXPECT_FALSE(arrivals_.front_is_complete());
  EXPECT_EQ(add(0, 0, bytes), "");
  EXPECT_TRUE(arrivals_.front_is_complete());
}

TEST_F(VerbsArrivalsTest, MessagesOvertakeEachOther) {
  EXPECT_EQ(add(1, 0, 8), "");
  EXPECT_FALSE(arrivals_.front_is_complete());
  EXPECT_EQ(add(0, 0, 0), "");
  arrivals_.release();
  EXPECT_TRUE(arrivals_.front_is_complete());
}

TEST_F(VerbsArrivalsTest, SequencesGoOnBeyondTheBitsOfANotice) {
  const uint32_t messages = 2 * VerbsImmediate::kSequenceMask;
  for (uint32_t sequence = 0; sequence < messages; ++sequence) {
    ASSERT_EQ(add(sequence, 0, 8), "");
    ASSERT_TRUE(arrivals_.front_is_complete());
    arrivals_.release();
  }
}

TEST_F(VerbsArrivalsTest, RefusesAMessageBeyondTheWindow) {
  EXPECT_THAT(add(4, 0, 8), HasSubstr("sent message 4 of channel 0 while only 4 from 0 on have room"));
}

TEST_F(VerbsArrivalsTest, RefusesAChunkThatIsThere) {
  ASSERT_EQ(add(1, 0, 8), "");
  EXPECT_THAT(add(1, 0, 8), HasSubstr("chunk 0 of message 1 of channel 0 twice"));
}

TEST_F(VerbsArrivalsTest, RefusesAChunkOfAReleasedMessage) {
  ASSERT_EQ(add(0, 0, 8), "");
  arrivals_.release();
  EXPECT_THAT(add(0, 0, 8), HasSubstr("twice"));
}

TEST_F(VerbsArrivalsTest, RefusesAHeaderOfAnotherMessage) {
  const SlotHeader other = {.bytes = 8, .sequence = 3};
  EXPECT_THAT(arrivals_.add(chunk_notice(0, 0), 32, kLayout, other), HasSubstr("sent message 3 as message 0"));
}

TEST_F(VerbsArrivalsTest, RefusesAMessageLongerThanItsSlot) {
  const SlotHeader header = {.bytes = (256 << 10) + 1};
  EXPECT_THAT(arrivals_.add(chunk_notice(0, 0), 32, kLayout, header), HasSubstr("262145 bytes in a slot of 262144"));
}

TEST_F(VerbsArrivalsTest, RefusesBytesThatAreMoreOrLessThanTheHeaderSays) {
  const SlotHeader header = {.bytes = 100};
  EXPECT_THAT(arrivals_.add(chunk_notice(0, 0), 100, kLayout, header), HasSubstr("which has 100"));
}

TEST_F(VerbsArrivalsTest, RefusesAChunkPastTheEnd) {
  const SlotHeader header = {.bytes = 8};
  ASSERT_EQ(arrivals_.add(chunk_notice(0, 5), 8, kLayout, header), "");
  EXPECT_THAT(arrivals_.add(chunk_notice(0, 0), sizeof(SlotHeader), kLayout, header), HasSubstr("which has 8"));
}

TEST(VerbsImmediate, KeepsAllItsParts) {
  const VerbsImmediate notice = {.notice = VerbsNotice::kDead, .channel = 31, .chunk = 63, .sequence = 262'143};
  const VerbsImmediate same = VerbsImmediate::unpack(notice.pack());
  EXPECT_EQ(same.notice, notice.notice);
  EXPECT_EQ(same.channel, notice.channel);
  EXPECT_EQ(same.chunk, notice.chunk);
  EXPECT_EQ(same.sequence, notice.sequence);
}

TEST(VerbsImmediate, KnowsAnOlderSequenceFromANewerOne) {
  const uint32_t full = 3 * (VerbsImmediate::kSequenceMask + 1);
  EXPECT_EQ((VerbsImmediate{.sequence = VerbsImmediate::kSequenceMask}.ahead_of(full)), -1);
  EXPECT_EQ((VerbsImmediate{.sequence = 5}.ahead_of(full)), 5);
}

TEST(SlotLayout, ChunksCoverAMessageWithoutOverlap) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{65'536}, size_t{65'537}, size_t{262'144}}) {
    size_t covered = 0;
    const size_t chunks = kLayout.chunks_of(bytes);
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
      const SlotLayout::Piece piece = kLayout.piece(2, chunk, bytes);
      EXPECT_EQ(piece.at, chunk == 0 ? kLayout.header_at(2) : kLayout.payload_at(2) + covered);
      covered += piece.bytes - (chunk == 0 ? sizeof(SlotHeader) : 0);
    }
    EXPECT_EQ(covered, bytes);
  }
}

}  // namespace
}  // namespace gimbal::testing
