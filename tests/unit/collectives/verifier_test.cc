// The verifier finds what it is for: every planted fault is named with rank, step and chunk.
#include "collectives/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "collectives/builder.h"
#include "collectives/passes.h"
#include "collectives/schedule_check.h"

namespace gimbal {
namespace {

using ::testing::HasSubstr;

// A ring all-reduce over four ranks, to be damaged. Rank 1's steps:
//   0 send 0   1 recv_reduce 3   2 send 3   3 recv_reduce 2   4 send 2   5 recv_reduce 1 -> output
//   6 send 1   7 recv 0          8 send 0   9 recv 3         10 send 3  11 recv 2
class DamagedRing : public ::testing::Test {
 protected:
  static constexpr CollectiveSpec kSpec = {.nranks = 4};

  DamagedRing() : schedules_(build_all(*find_algorithm(Collective::kAllReduce, "ring"), kSpec, Fusion::kNone)) {}

  std::vector<Step>& steps(Rank rank) { return schedules_[static_cast<size_t>(rank)].steps; }
  // The first step of rank 1 with this operation.
  Step& step_with(Op op) {
    for (Step& step : steps(1)) {
      if (step.op == op) return step;
    }
    ADD_FAILURE() << "rank 1 has no such step";
    return steps(1).front();
  }
  // Without the last step of this operation.
  void erase_last(Rank rank, Op op) {
    size_t index = steps(rank).size();
    while (steps(rank)[--index].op != op) {
    }
    steps(rank).erase(steps(rank).begin() + static_cast<std::ptrdiff_t>(index));
    relink(rank);
  }
  // So that only the planted fault is wrong.
  void relink(Rank rank) { schedules_[static_cast<size_t>(rank)] = link(schedules_[static_cast<size_t>(rank)]); }
  std::string error() { return verify(kSpec, schedules_).status().message(); }

  std::vector<Schedule> schedules_;
};

TEST_F(DamagedRing, PassesUndamaged) { EXPECT_EQ(error(), ""); }

TEST_F(DamagedRing, AReduceMadeACopyLosesAnInput) {
  Step& step = step_with(Op::kRecvReduce);
  step.op = Op::kRecv;
  step.src = BufferId::kNone;
  EXPECT_THAT(error(), HasSubstr("the input of rank 1 is missing"));
}

TEST_F(DamagedRing, AContributionThatIsAddedTwiceIsNamed) {
  Step& step = step_with(Op::kRecvReduce);
  Step again = step;
  again.op = Op::kReduce;
  again.peer = kNoRank;
  steps(1).insert(steps(1).begin() + (&step - steps(1).data()) + 1, again);
  relink(1);
  EXPECT_THAT(error(), HasSubstr("the input of rank 1 is in it twice"));
}

TEST_F(DamagedRing, ALostLastChunkIsNeverWritten) {
  erase_last(3, Op::kRecv);
  erase_last(2, Op::kSend);
  EXPECT_THAT(error(), HasSubstr("rank 3, output chunk 0: it is never written"));
}

TEST_F(DamagedRing, AMessageThatNobodyReceivesIsLeftOver) {
  Step extra = step_with(Op::kSend);
  steps(1).push_back(extra);
  schedules_[1].steps.back().src = BufferId::kOutput;
  schedules_[1].steps.back().payload = schedules_[1].steps.back().sent = Payload::kFinal;
  relink(1);
  EXPECT_THAT(error(), HasSubstr("rank 2 has no step that receives it on channel 0"));
}

TEST_F(DamagedRing, AMessageToTheWrongRankDoesNotMatch) {
  step_with(Op::kSend).peer = 3;
  // Rank 2 waits for it and gets the next one.
  EXPECT_THAT(error(), HasSubstr("rank 2, step 1 (recv_reduce chunk 0 from 1 (raw) + input -> scratch): the message that "
                                 "arrives is that of rank 1, step 2"));
}

TEST_F(DamagedRing, AMessageOfAnotherRunDoesNotMatch) {
  step_with(Op::kRecvReduce).chunk = 2;
  EXPECT_THAT(error(), HasSubstr("the message that arrives is that of rank 0, step 0 (send chunk 3 input to 1 (raw))"));
}

TEST_F(DamagedRing, AMessageOfAnotherPayloadDoesNotMatch) {
  step_with(Op::kRecvReduce).payload = Payload::kPartial;
  EXPECT_THAT(error(), HasSubstr("the message that arrives is that of rank 0, step 0"));
}

TEST_F(DamagedRing, AFinalValueIsNotAddedAgain) {
  // The first partial sum is written to the output and sent from there: rounded once too often.
  Step& add = step_with(Op::kRecvReduce);
  Step& send = *(&add + 1);
  add.dst = BufferId::kOutput;
  send.src = BufferId::kOutput;
  send.payload = send.sent = Payload::kFinal;
  for (Step& step : steps(2)) {
    if (step.op == Op::kRecvReduce && step.chunk == send.chunk) step.payload = Payload::kFinal;
  }
  relink(1);
  EXPECT_THAT(error(), HasSubstr("a final value is rounded and not to be added"));
}

TEST_F(DamagedRing, AMissingDependencyIsNamedThoughThisOrderWouldDo) {
  for (Step& step : steps(1)) {
    if (step.op == Op::kSend && step.src == BufferId::kScratch) step.after = kNoStep;
  }
  EXPECT_THAT(error(), HasSubstr("rank 1, step 2 (send chunk 3 scratch to 2 (partial)): does not wait for step 1, which uses "
                                 "chunk 3 too"));
}

TEST_F(DamagedRing, OutputMustNotOverwriteInputThatIsStillToBeSent) {
  for (Step& step : steps(1)) {
    if (step.op == Op::kRecv) step.after = kNoStep;
  }
  EXPECT_THAT(error(), HasSubstr("does not wait for step"));
}

TEST_F(DamagedRing, AStepThatWaitsForALaterOneIsRefused) {
  steps(1)[2].after = 5;
  EXPECT_THAT(error(), HasSubstr("waits for step 5, not an earlier one of its channel"));
}

TEST_F(DamagedRing, AChunkInTwoChannelsIsRefused) {
  for (Schedule& schedule : schedules_) schedule.channels = 2;
  steps(1).back().channel = 1;
  steps(1).back().after = kNoStep;
  EXPECT_THAT(error(), HasSubstr("belongs to channel 0"));
}

TEST_F(DamagedRing, ARunBeyondTheLastChunkIsRefused) {
  steps(1)[1].count = 2;
  EXPECT_THAT(error(), HasSubstr("the run is not within 4 chunks"));
}

TEST_F(DamagedRing, AMessageToOneselfIsRefused) {
  steps(1)[0].peer = 1;
  EXPECT_THAT(error(), HasSubstr("peer 1 is not another rank"));
}

TEST_F(DamagedRing, AnAdditionToTheOutputIsRefused) {
  step_with(Op::kRecvReduce).src = BufferId::kOutput;
  EXPECT_THAT(error(), HasSubstr("the operation cannot use these buffers"));
}

TEST_F(DamagedRing, RanksMustAgreeOnTheChunks) {
  schedules_[2].chunk_count = 8;
  EXPECT_EQ(error(), "rank 2 has 8 chunks on 1 channels, rank 0 has 4 on 1");
}

TEST(Verifier, NamesWhoWaitsForWhomInACycle) {
  // Each of three ranks receives from the one before until it sends to the next.
  const CollectiveSpec spec = {.collective = Collective::kAllGather, .nranks = 3};
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < 3; ++rank) {
    ScheduleBuilder builder(spec, 3);
    builder.recv((rank + 2) % 3, unit((rank + 2) % 3), Payload::kFinal, BufferId::kOutput);
    builder.send((rank + 1) % 3, unit(rank), BufferId::kInput);
    Schedule schedule = builder.take();
    schedule.steps[1].after = 0;
    schedules.push_back(std::move(schedule));
  }
  const std::string message = verify(spec, schedules).status().message();
  EXPECT_THAT(message, HasSubstr("deadlock with 1 slots and 1 slices: rank 0, step 0 (recv chunk 2 from 2 (final) -> output) "
                                 "waits for a message; rank 0, step 1 (send chunk 0 input to 1 (final)) waits for step 0"));
  EXPECT_THAT(message, HasSubstr("and 2 more"));
}

TEST(Verifier, FindsTheDeadlockOfTwoSendersThatWaitForEachOther) {
  // Both send two messages before they receive, in one order that a window of one cannot hold.
  const CollectiveSpec spec = {.collective = Collective::kAllToAll, .nranks = 2, .pieces = 2};
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < 2; ++rank) {
    const Rank peer = 1 - rank;
    ScheduleBuilder builder(spec, 4);
    for (const uint32_t piece : {0, 1}) {
      builder.enter(0, piece);
      builder.send(peer, unit(2 * rank + peer), BufferId::kInput);
      builder.copy(unit(3 * rank), BufferId::kInput, BufferId::kOutput);
    }
    for (const uint32_t piece : {0, 1}) {
      builder.enter(0, piece);
      builder.recv(peer, unit(2 * peer + rank), Payload::kFinal, BufferId::kOutput);
    }
    Schedule schedule = link(builder.take());
    schedule.steps[4].after = 2;  // the first receive after the second send
    schedules.push_back(std::move(schedule));
  }
  EXPECT_TRUE(verify(spec, schedules, {.slot_depth = 2}).ok());
  EXPECT_THAT(verify(spec, schedules, {.slot_depth = 1}).status().message(), HasSubstr("waits for a free slot"));
}

TEST(Verifier, ScratchMustBeWrittenBeforeItIsRead) {
  const CollectiveSpec spec = {.collective = Collective::kReduce, .nranks = 2, .root = 1};
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < 2; ++rank) {
    ScheduleBuilder builder(spec, 1);
    if (rank == 0) builder.send(1, unit(0), BufferId::kScratch);
    if (rank == 1) builder.recv_reduce(0, unit(0), Payload::kPartial, BufferId::kInput, BufferId::kOutput);
    schedules.push_back(link(builder.take()));
  }
  EXPECT_EQ(verify(spec, schedules).status().message(),
            "rank 0, step 0 (send chunk 0 scratch to 1 (partial)): chunk 0: scratch is read before it is written");
}

TEST(Verifier, ARankHasOnlyItsOwnInput) {
  const CollectiveSpec spec = {.collective = Collective::kScatter, .nranks = 2};
  std::vector<Schedule> schedules = build_all(*find_algorithm(Collective::kScatter, "linear"), spec, Fusion::kNone);
  schedules[1].steps.clear();
  ScheduleBuilder builder(spec, 2);
  builder.copy(unit(1), BufferId::kInput, BufferId::kOutput);
  schedules[1] = link(builder.take());
  EXPECT_EQ(verify(spec, schedules).status().message(),
            "rank 1, step 0 (copy chunk 1 input -> output): chunk 1: the rank has no such input");
}

TEST(Verifier, NothingIsAddedWhereTheCollectiveAddsNothing) {
  const CollectiveSpec spec = {.collective = Collective::kAllGather, .nranks = 1};
  ScheduleBuilder builder(spec, 1);
  builder.copy(unit(0), BufferId::kInput, BufferId::kScratch);
  builder.reduce(unit(0), BufferId::kOutput);
  const std::vector<Schedule> schedules = {link(builder.take())};
  EXPECT_THAT(verify(spec, schedules).status().message(), HasSubstr("the collective adds nothing"));
}

TEST(Verifier, ASendMustNotOvertakeAForwardToTheSameRank) {
  const CollectiveSpec spec = {.collective = Collective::kBroadcast, .nranks = 3, .pieces = 3};
  ScheduleBuilder builder(spec, 1);
  for (const uint32_t piece : {0, 1}) {
    builder.enter(0, piece);
    builder.recv(0, unit(0), Payload::kFinal, BufferId::kOutput);
  }
  builder.send(2, unit(0), BufferId::kOutput);  // directly after piece 1: becomes a forward
  builder.enter(0, 0);
  builder.send(2, unit(0), BufferId::kOutput);
  Schedule schedule = link(fuse(builder.take()));
  ASSERT_EQ(schedule.steps.size(), 3U);
  EXPECT_EQ(schedule.steps[2].after, 1);
  EXPECT_TRUE(check_schedule(spec, 1, schedule).ok());

  schedule.steps[2].after = 0;  // what it reads, but not what it follows
  EXPECT_THAT(check_schedule(spec, 1, schedule).message(), HasSubstr("may overtake step 1, which sends to the same rank"));
}

}  // namespace
}  // namespace gimbal
