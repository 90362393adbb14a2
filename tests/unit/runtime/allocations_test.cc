#include "runtime/allocations.h"

#include <gtest/gtest.h>

namespace gimbal::test {
namespace {

constexpr size_t kPartBytes = 8192;
constexpr Rank kRanks = 3;

Allocations::Entry make_entry() { return {SharedSegment::create("test", kPartBytes * kRanks).value(), kPartBytes}; }

class AllocationsTest : public testing::Test {
 protected:
  AllocationsTest() : own_(static_cast<std::byte*>(allocations_.add(make_entry()))) {}

  static constexpr Rank kOwn = 1;
  Allocations allocations_{kOwn};
  std::byte* const own_;  // this rank's part of the first allocation
};

TEST_F(AllocationsTest, PlaceAnywhereInsideResolvesToTheSameOffsetOfEveryPart) {
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{4097}, kPartBytes - 1}) {
    const uint64_t place = allocations_.place_of(own_ + offset, 1);
    ASSERT_NE(place, 0U) << offset;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(allocations_.resolve(rank, place, 1), own_ + offset + (rank - kOwn) * static_cast<ptrdiff_t>(kPartBytes));
    }
  }
}

TEST_F(AllocationsTest, MemoryThatIsNotWhollyInsideTheOwnPartHasNoPlace) {
  std::byte foreign{};
  EXPECT_EQ(allocations_.place_of(&foreign, 1), 0U);
  EXPECT_EQ(allocations_.place_of(nullptr, 1), 0U);
  EXPECT_EQ(allocations_.place_of(own_ - 1, 1), 0U) << "another rank's part";
  EXPECT_EQ(allocations_.place_of(own_ - 1, kPartBytes), 0U);
  EXPECT_EQ(allocations_.place_of(own_, kPartBytes + 1), 0U);
  EXPECT_EQ(allocations_.place_of(own_ + kPartBytes - 1, 2), 0U);
  EXPECT_EQ(allocations_.place_of(own_ + 1, ~size_t{0}), 0U);
  EXPECT_NE(allocations_.place_of(own_, kPartBytes), 0U);
}

TEST_F(AllocationsTest, HostilePlacesResolveToNothing) {
  const uint64_t good = allocations_.place_of(own_, 1);
  EXPECT_NE(allocations_.resolve(0, good, kPartBytes), nullptr);
  EXPECT_EQ(allocations_.resolve(0, good, kPartBytes + 1), nullptr);
  EXPECT_EQ(allocations_.resolve(0, good + kPartBytes, 1), nullptr);
  EXPECT_EQ(allocations_.resolve(0, good + 1, ~size_t{0}), nullptr);
  EXPECT_EQ(allocations_.resolve(0, good | ((uint64_t{1} << 48) - 1), 1), nullptr) << "an offset of 2^48 - 1";
  EXPECT_EQ(allocations_.resolve(0, 0, 1), nullptr);
  EXPECT_EQ(allocations_.resolve(0, ~uint64_t{0}, 1), nullptr);
  EXPECT_EQ(allocations_.resolve(0, uint64_t{2} << 48, 1), nullptr) << "an allocation that was not made";
}

TEST_F(AllocationsTest, AllocationsAreToldApart) {
  auto* const second = static_cast<std::byte*>(allocations_.add(make_entry()));
  const uint64_t first_place = allocations_.place_of(own_, 8);
  const uint64_t second_place = allocations_.place_of(second, 8);
  EXPECT_NE(first_place, second_place);
  EXPECT_EQ(allocations_.resolve(kOwn, first_place, 8), own_);
  EXPECT_EQ(allocations_.resolve(kOwn, second_place, 8), second);
}

TEST_F(AllocationsTest, OnlyTheBeginningOfAnAllocationIsFreed) {
  EXPECT_EQ(allocations_.remove(own_ + 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(allocations_.remove(nullptr).code(), Code::kInvalidArgument);
  const uint64_t place = allocations_.place_of(own_, 1);
  EXPECT_TRUE(allocations_.remove(own_).ok());
  EXPECT_EQ(allocations_.resolve(0, place, 1), nullptr);
  EXPECT_EQ(allocations_.remove(own_).code(), Code::kInvalidArgument) << "freed twice";
  EXPECT_TRUE(allocations_.empty());
}

TEST_F(AllocationsTest, NumbersAreNotUsedAgain) {
  const uint16_t number = allocations_.next_number();
  allocations_.add(make_entry());
  EXPECT_TRUE(allocations_.remove(own_).ok());
  EXPECT_EQ(allocations_.next_number(), number + 1);
}

TEST_F(AllocationsTest, OnlyTouchedMemoryIsResident) {
  const size_t before = allocations_.resident_bytes();
  own_[0] = std::byte{1};
  EXPECT_GT(allocations_.resident_bytes(), before);
  EXPECT_LE(allocations_.resident_bytes(), kPartBytes);
}

}  // namespace
}  // namespace gimbal::test
