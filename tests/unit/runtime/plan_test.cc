#include "runtime/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/hand_ring.h"

namespace gimbal::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlanOptions all_reduce_options(Rank nranks, size_t count) {
  PlanOptions options;
  options.layout.nranks = nranks;
  options.layout.count = count;
  options.slice_bytes = 64;
  options.window = 3;
  return options;
}

Plan plan_of(const Schedule& schedule, const PlanOptions& options) {
  Result<Plan> plan = make_plan(schedule, options);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *std::move(plan);
}

const PlanStep& other_step(const Plan& plan, size_t index) { return plan.steps[0][1][index]; }

TEST(Plan, SendsPartialsInTheAccumulatorType) {
  PlanOptions options = all_reduce_options(3, 30);
  options.dtype = DType::kBfloat16;
  const Plan plan = plan_of(hand_ring(3, 0), options);
  EXPECT_EQ(other_step(plan, 0).received_form, Form::kElement);  // raw
  EXPECT_EQ(other_step(plan, 0).sent.form, Form::kPartial);
  EXPECT_EQ(other_step(plan, 1).received_form, Form::kPartial);
  EXPECT_EQ(other_step(plan, 1).sent.form, Form::kElement);  // final
  EXPECT_EQ(plan.slice_elements, 16U);                       // of float32
}

TEST(Plan, SendsPartialsAsElementsWhenAskedTo) {
  PlanOptions options = all_reduce_options(3, 30);
  options.dtype = DType::kBfloat16;
  options.element_partials = true;
  EXPECT_EQ(other_step(plan_of(hand_ring(3, 0), options), 0).sent.form, Form::kElement);
}

TEST(Plan, KeepsWideSumsOfIntegerAveragesOnTheWire) {
  PlanOptions options = all_reduce_options(3, 30);
  options.dtype = DType::kInt32;
  options.op = ReduceOp::kAvg;
  options.element_partials = true;
  EXPECT_EQ(other_step(plan_of(hand_ring(3, 0), options), 0).sent.form, Form::kPartial);
}

TEST(Plan, SendsRawValuesAsPartialsWhenTheyAreWeighted) {
  PlanOptions options = all_reduce_options(3, 30);
  options.dtype = DType::kFloat16;
  options.weighted = true;
  const Plan plan = plan_of(hand_ring(3, 0), options);
  EXPECT_EQ(plan.steps[0][0][0].sent.form, Form::kPartial);
  EXPECT_FALSE(plan.steps[0][0][0].sent.is_copy);
}

TEST(Plan, DividesAveragesOnceWhereTheyBecomeFinal) {
  PlanOptions options = all_reduce_options(3, 30);
  options.op = ReduceOp::kAvg;
  const Plan plan = plan_of(hand_ring(3, 0), options);
  EXPECT_EQ(plan.divisor, 3.0);
  EXPECT_FALSE(other_step(plan, 0).sent.divides);
  EXPECT_TRUE(other_step(plan, 1).sent.divides);
  EXPECT_TRUE(other_step(plan, 1).same_targets);
  EXPECT_FALSE(other_step(plan, 2).stored.divides);  // receives what is divided already
}

TEST(Plan, CutsChunksIntoSegmentsThatLeaveOneSlotOfTheWindowFree) {
  const Plan plan = plan_of(hand_ring(2, 0), all_reduce_options(2, 2 * 16 * 5));
  EXPECT_EQ(plan.segment_elements, 16U * 2);
  EXPECT_EQ(plan.segments, 3U);
}

TEST(Plan, KeepsChunksThatFitWhole) { EXPECT_EQ(plan_of(hand_ring(2, 0), all_reduce_options(2, 2 * 16 * 2)).segments, 1U); }

TEST(Plan, MakesTheFirstSendOfASegmentWaitForTheForwardsOfTheOneBefore) {
  const Plan plan = plan_of(hand_ring(3, 0), all_reduce_options(3, 1000));
  EXPECT_EQ(plan.steps[0][0][0].previous, 2U);  // the last of the two reducing and one copying hop that forward
  EXPECT_EQ(other_step(plan, 0).previous, 0U);
}

TEST(Plan, NamesItsPeersOnce) { EXPECT_THAT(plan_of(hand_ring(4, 2), all_reduce_options(4, 10)).peers, ElementsAre(1, 3)); }

TEST(Plan, RefusesAFusedScheduleInAWindowOfOne) {
  PlanOptions options = all_reduce_options(3, 30);
  options.window = 1;
  const auto plan = make_plan(hand_ring(3, 0), options);
  EXPECT_EQ(plan.status().code(), Code::kUnsupported);
  EXPECT_THAT(plan.status().message(), HasSubstr("a window of 1 slices"));
}

TEST(Plan, RefusesSlicesThatHoldNoElement) {
  PlanOptions options = all_reduce_options(3, 30);
  options.slice_bytes = 3;
  EXPECT_EQ(make_plan(hand_ring(3, 0), options).status().code(), Code::kUnsupported);
}

TEST(Plan, RefusesAStepOnAChunkThatTheRankDoesNotHold) {
  PlanOptions options = all_reduce_options(2, 30);
  options.layout.collective = Collective::kAllGather;
  const auto plan = make_plan(hand_ring(2, 0), options);  // reads chunk 1 from the input
  EXPECT_EQ(plan.status().code(), Code::kInternal);
  EXPECT_THAT(plan.status().message(), HasSubstr("chunk 1 in the input of rank 0"));
}

}  // namespace
}  // namespace gimbal::test
