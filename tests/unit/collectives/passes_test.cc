#include "collectives/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "collectives/accesses.h"
#include "collectives/builder.h"
#include "collectives/verifier.h"

namespace gimbal {
namespace {

using ::testing::ElementsAre;

constexpr CollectiveSpec kSpec = {.nranks = 4};

std::vector<Op> ops(const Schedule& schedule) {
  std::vector<Op> result;
  for (const Step& step : schedule.steps) result.push_back(step.op);
  return result;
}

TEST(Fuse, MakesOneStepOfEveryHopOfARingAndNeedsNoScratch) {
  const Schedule schedule = build_schedule(*find_algorithm(Collective::kAllReduce, "ring"), kSpec, 0, Fusion::kFused);
  EXPECT_THAT(ops(schedule), ElementsAre(Op::kSend, Op::kRecvReduceSend, Op::kRecvReduceSend, Op::kRecvReduceSend,
                                         Op::kRecvSend, Op::kRecvSend, Op::kRecv));
  EXPECT_EQ(schedule.steps[1].dst, BufferId::kNone);
  EXPECT_EQ(schedule.steps[1].payload, Payload::kRaw);
  EXPECT_EQ(schedule.steps[1].sent, Payload::kPartial);
  EXPECT_EQ(schedule.steps[3].dst, BufferId::kOutput);
  EXPECT_EQ(schedule.steps[3].sent, Payload::kFinal);
}

TEST(Fuse, KeepsAPartialThatIsReadAgain) {
  ScheduleBuilder builder(kSpec, 1);
  builder.recv_reduce(1, unit(0), Payload::kRaw, BufferId::kInput, BufferId::kScratch);
  builder.send(2, unit(0), BufferId::kScratch);
  builder.recv_reduce(3, unit(0), Payload::kRaw, BufferId::kScratch, BufferId::kOutput);
  const Schedule schedule = fuse(builder.take());
  ASSERT_THAT(ops(schedule), ElementsAre(Op::kRecvReduceSend, Op::kRecvReduce));
  EXPECT_EQ(schedule.steps[0].dst, BufferId::kScratch);
}

TEST(Fuse, DropsAPartialThatIsOverwrittenBeforeItIsReadAgain) {
  ScheduleBuilder builder(kSpec, 1);
  builder.recv_reduce(1, unit(0), Payload::kRaw, BufferId::kInput, BufferId::kScratch);
  builder.send(2, unit(0), BufferId::kScratch);
  builder.recv(3, unit(0), Payload::kPartial, BufferId::kScratch);
  builder.reduce(unit(0), BufferId::kOutput);
  EXPECT_EQ(fuse(builder.take()).steps[0].dst, BufferId::kNone);
}

TEST(Fuse, LeavesBytesAloneThatChangeTheirKindOnTheWay) {
  ScheduleBuilder builder(kSpec, 1);
  builder.recv(1, unit(0), Payload::kRaw, BufferId::kScratch);
  builder.send(2, unit(0), BufferId::kScratch);  // raw came, partial goes
  EXPECT_THAT(ops(fuse(builder.take())), ElementsAre(Op::kRecv, Op::kSend));
}

TEST(Fuse, LeavesASendOfAnotherRunOrChannelAlone) {
  const CollectiveSpec spec = {.nranks = 4, .channels = 2};
  ScheduleBuilder builder(spec, 2);
  builder.recv(1, {0, 2}, Payload::kFinal, BufferId::kOutput);
  builder.send(2, {0, 1}, BufferId::kOutput);
  builder.recv(1, {0, 1}, Payload::kFinal, BufferId::kOutput);
  builder.enter(1, 0);
  builder.send(2, {0, 1}, BufferId::kOutput);
  EXPECT_EQ(fuse(builder.take()).steps.size(), 4U);
}

TEST(Link, ASendWaitsForTheLastWriterOfItsRun) {
  ScheduleBuilder builder(kSpec, 4);
  builder.recv(1, unit(0), Payload::kFinal, BufferId::kOutput);
  builder.recv(1, unit(1), Payload::kFinal, BufferId::kOutput);
  builder.recv(1, unit(2), Payload::kFinal, BufferId::kOutput);
  builder.send(2, {0, 2}, BufferId::kOutput);
  EXPECT_EQ(link(builder.take()).steps[3].after, 1);
}

TEST(Link, AWriteToTheOutputWaitsForTheSendOfTheInputBeneath) {
  ScheduleBuilder builder(kSpec, 1);
  builder.send(1, unit(0), BufferId::kInput);
  builder.recv(1, unit(0), Payload::kFinal, BufferId::kOutput);
  EXPECT_EQ(link(builder.take()).steps[1].after, 0);
}

TEST(Link, ScratchAndElementsOfAChunkAreTwoPlaces) {
  ScheduleBuilder builder(kSpec, 1);
  builder.send(1, unit(0), BufferId::kInput);
  builder.recv(1, unit(0), Payload::kPartial, BufferId::kScratch);
  EXPECT_EQ(link(builder.take()).steps[1].after, kNoStep);
}

TEST(Link, ReadsDoNotWaitForReads) {
  ScheduleBuilder builder(kSpec, 1);
  builder.send(1, unit(0), BufferId::kInput);
  builder.recv_reduce(1, unit(0), Payload::kRaw, BufferId::kInput, BufferId::kScratch);
  EXPECT_EQ(link(builder.take()).steps[1].after, kNoStep);
}

// The slow and obvious statement of what link() promises: two steps of a channel that share a place, one of them writing, are
// ordered by cursors and `after`s, through any number of steps.
bool conflict(const Step& a, const Step& b) {
  if (sends_to(a) != kNoRank && sends_to(a) == sends_to(b)) return true;
  if (a.chunk >= b.chunk + b.count || b.chunk >= a.chunk + a.count) return false;
  for (const Place place : {Place::kElements, Place::kScratch}) {
    if (writes(a, place) && (reads(b, place) || writes(b, place))) return true;
    if (reads(a, place) && writes(b, place)) return true;
  }
  return false;
}

size_t count_unordered_conflicts(const std::vector<Step>& steps) {
  std::vector<std::vector<bool>> before(steps.size(), std::vector<bool>(steps.size()));
  size_t unordered = 0;
  for (size_t later = 0; later < steps.size(); ++later) {
    const auto follow = [&](size_t earlier) {
      before[later][earlier] = true;
      for (size_t i = 0; i < earlier; ++i) before[later][i] = before[later][i] || before[earlier][i];
    };
    for (size_t i = 0; i < later; ++i) {
      if (steps[i].channel == steps[later].channel && on_send_cursor(steps[i]) == on_send_cursor(steps[later])) follow(i);
    }
    if (steps[later].after != kNoStep) follow(static_cast<size_t>(steps[later].after));
    for (size_t i = 0; i < later; ++i) {
      if (steps[i].channel == steps[later].channel && conflict(steps[i], steps[later]) && !before[later][i]) ++unordered;
    }
  }
  return unordered;
}

TEST(Link, OneAfterOrdersAllConflictsOfEveryAlgorithm) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Rank n : {2, 3, 6, 7}) {
      for (const Fusion fusion : {Fusion::kNone, Fusion::kFused}) {
        const CollectiveSpec spec = {.collective = algorithm.collective, .nranks = n, .channels = 2, .pieces = 2};
        for (const Schedule& schedule : build_all(algorithm, spec, fusion)) {
          EXPECT_EQ(count_unordered_conflicts(schedule.steps), 0U) << algorithm.name << " over " << n << " ranks";
        }
      }
    }
  }
}

TEST(Link, TheConflictsAreThereWithoutIt) {
  const Schedule schedule = find_algorithm(Collective::kAllReduce, "ring")->build(kSpec, 0);
  EXPECT_GT(count_unordered_conflicts(schedule.steps), 0U);
}

}  // namespace
}  // namespace gimbal
