// How much room fused steps need, which is what Algorithm::window_runs and schedule.h say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/passes.h"
#include "collectives/verifier.h"

namespace gimbal {
namespace {

using ::testing::HasSubstr;

std::string error_of(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion, const VerifyOptions& window) {
  return verify(spec, build_all(algorithm, spec, fusion), window).status().message();
}

TEST(Window, AFusedRingWhoseRunsFillTheWindowBlocksForGood) {
  const Algorithm& ring = *find_algorithm(Collective::kAllReduce, "ring");
  const CollectiveSpec spec = {.nranks = 4};
  EXPECT_THAT(error_of(ring, spec, Fusion::kFused, {.slot_depth = 3, .slices = 3}), HasSubstr("deadlock"));
  EXPECT_EQ(error_of(ring, spec, Fusion::kFused, {.slot_depth = 4, .slices = 3}), "");
  EXPECT_EQ(error_of(ring, spec, Fusion::kNone, {.slot_depth = 1, .slices = 3}), "");
}

TEST(Window, AFusedDoubleTreeInPiecesNeedsTwoRuns) {
  const Algorithm& tree = *find_algorithm(Collective::kAllReduce, "double_tree");
  const CollectiveSpec spec = {.nranks = 6, .pieces = 4};
  EXPECT_THAT(error_of(tree, spec, Fusion::kFused, {.slot_depth = 4, .slices = 3}), HasSubstr("deadlock"));
  EXPECT_EQ(error_of(tree, spec, Fusion::kFused, {.slot_depth = 7, .slices = 3}), "");
}

// What a Plan does with long runs: the whole list for one part of every chunk, then for the next.
Schedule repeated(const Schedule& schedule, uint32_t parts) {
  Schedule result;
  result.chunk_count = schedule.chunk_count * parts;
  result.channels = schedule.channels;
  for (uint32_t part = 0; part < parts; ++part) {
    for (Step step : schedule.steps) {
      step.chunk += part * schedule.chunk_count;
      result.steps.push_back(step);
    }
  }
  return link(std::move(result));
}

TEST(Window, AListCarriedOutPartByPartNeedsNoMoreThanOnce) {
  constexpr uint32_t kSlices = 3;
  for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce}) {
    for (const Algorithm* algorithm : algorithms_for(collective)) {
      for (const Rank n : {2, 3, 6, 9, 16}) {
        const CollectiveSpec spec = {.collective = collective, .nranks = n};
        std::vector<Schedule> schedules;
        for (Rank rank = 0; rank < n; ++rank) schedules.push_back(repeated(fuse(algorithm->build(spec, rank)), 4));
        const Status status = verify(spec, schedules, {.slot_depth = kSlices + 1, .slices = kSlices}).status();
        EXPECT_TRUE(status.ok()) << algorithm->name << " over " << n << " ranks: " << status.message();
      }
    }
  }
}

}  // namespace
}  // namespace gimbal
