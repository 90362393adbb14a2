#include "gradsync/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace gimbal::gradsync {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr StateOwner kOwner = {1, 4};

struct Carried {
  std::array<std::byte, 5> first;
  std::array<std::byte, 3> second;

  explicit Carried(std::byte value) {
    first.fill(value);
    second.fill(value);
  }
  std::vector<StateSection> sections() { return {{"first", StateKind::kError, first}, {"second", StateKind::kCodec, second}}; }
};

std::vector<std::byte> saved(std::span<const StateSection> sections) {
  std::vector<std::byte> bytes(state_bytes(sections));
  save_state(sections, kOwner, bytes);
  return bytes;
}

TEST(State, ComesBackInAnotherOrder) {
  Carried before(std::byte{7});
  const std::vector<std::byte> bytes = saved(before.sections());
  Carried after(std::byte{0});
  std::vector<StateSection> turned = after.sections();
  std::swap(turned[0], turned[1]);
  const Status status = load_state(bytes, kOwner, turned);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(after.first, Each(std::byte{7}));
  EXPECT_THAT(after.second, Each(std::byte{7}));
}

TEST(State, CutAnywhereIsRefusedAndChangesNothing) {
  Carried before(std::byte{7});
  const std::vector<std::byte> bytes = saved(before.sections());
  Carried after(std::byte{0});
  for (size_t kept = 0; kept < bytes.size(); ++kept) {
    const Status status = load_state(std::span(bytes).first(kept), kOwner, after.sections());
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << kept;
  }
  EXPECT_THAT(after.first, Each(std::byte{0}));
}

TEST(State, OfOthersIsRefusedByName) {
  Carried before(std::byte{7});
  const std::vector<std::byte> bytes = saved(before.sections());
  Carried after(std::byte{0});
  EXPECT_THAT(load_state(bytes, {0, 4}, after.sections()).message(), HasSubstr("is of rank 1 of 4, but this is rank 0 of 4"));
  std::vector<StateSection> sections = after.sections();
  sections[1].parameter = "third";
  EXPECT_THAT(load_state(bytes, kOwner, sections).message(), HasSubstr("has nothing for parameter \"third\""));
  sections = after.sections();
  sections[0].bytes = sections[0].bytes.first(4);
  EXPECT_THAT(load_state(bytes, kOwner, sections).message(), HasSubstr("has 5 bytes for parameter \"first\", which needs 4"));
  EXPECT_THAT(load_state(bytes, kOwner, std::span(sections).last(1)).message(), HasSubstr("parameters that are not here"));
}

}  // namespace
}  // namespace gimbal::gradsync
