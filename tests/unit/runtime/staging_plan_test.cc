#include "runtime/cuda/staging_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gimbal {
namespace {

constexpr Rank kRanks = 3;

Call call_of(Collective collective, size_t count, Rank root = 0) {
  Call call;
  call.collective = collective;
  call.dtype = DType::kInt32;
  call.count = count;
  call.root = root;
  return call;
}

// One byte a letter: what each piece copies into and out of the slot, one after the other.
struct Staged {
  std::string seen;     // of the caller's send, in the order of the slots
  std::string written;  // of a caller's recv that the slots' bytes are copied to
};

Staged stage(Call call, Rank rank, const std::string& send, size_t recv_bytes, size_t piece_bytes) {
  call.dtype = DType::kUint8;
  const StagingPlan plan(call, rank, kRanks, piece_bytes);
  Staged staged;
  staged.written.assign(recv_bytes, '.');
  for (size_t i = 0; i < plan.pieces(); ++i) {
    const StagedPiece piece = plan.piece(i);
    std::string slot(plan.slot_bytes(), '-');
    for (const StagedCopy& copy : piece.in) slot.replace(copy.slot_offset, copy.bytes, send, copy.device_offset, copy.bytes);
    staged.seen += "[" + slot + "]";
    for (size_t at = 0; at < slot.size(); ++at) slot[at] = static_cast<char>('0' + at % 10);
    for (const StagedCopy& copy : piece.out) {
      staged.written.replace(copy.device_offset, copy.bytes, slot, copy.slot_offset, copy.bytes);
    }
  }
  return staged;
}

TEST(StagingPlan, CutsElementwiseCollectivesIntoRunsThatAreReducedInPlace) {
  const Staged staged = stage(call_of(Collective::kAllReduce, 10), 1, "abcdefghij", 10, 4);
  EXPECT_EQ(staged.seen, "[abcd][efgh][ij--]");
  EXPECT_EQ(staged.written, "0123012301");
}

TEST(StagingPlan, TakesTheSamePartOfEveryBlock) {
  // Slots of three blocks to send and three to receive, two elements of each.
  const Staged staged = stage(call_of(Collective::kAllToAll, 3), 0, "abcdefghi", 9, 12);
  EXPECT_EQ(staged.seen, "[abdegh------][cfi---------]");
  EXPECT_EQ(staged.written, "673894015");
}

TEST(StagingPlan, StagesOnlyWhatTheRankHasAndCutsAlikeOnAllRanks) {
  const Call scatter = call_of(Collective::kScatter, 4, 2);
  EXPECT_EQ(stage(scatter, 2, "abcdefghijkl", 4, 8).seen, "[abefij--][cdghkl--]");
  EXPECT_EQ(stage(scatter, 0, "", 4, 8).seen, "[--------][--------]");
  const Call broadcast = call_of(Collective::kBroadcast, 4, 2);
  EXPECT_EQ(stage(broadcast, 2, "abcd", 4, 8).written, "....");
  EXPECT_EQ(stage(broadcast, 0, "abcd", 4, 8).written, "0123");
  EXPECT_EQ(stage(broadcast, 0, "abcd", 4, 8).seen, "[----]");
}

TEST(StagingPlan, PacksBlocksOfUnequalSizeIntoOnePiece) {
  const std::vector<size_t> counts = {2, 0, 3};
  const std::vector<size_t> displacements = {6, 1, 2};
  Call call = call_of(Collective::kAllGatherV, 3);
  call.recv_counts = counts.data();
  call.recv_displacements = displacements.data();
  const Staged staged = stage(call, 2, "xyz", 9, 2);
  EXPECT_EQ(staged.seen, "[xyz-----]");
  EXPECT_EQ(staged.written, "..567.34.");
}

TEST(StagingPlan, NeverCutsMessages) {
  EXPECT_EQ(StagingPlan(call_of(Collective::kSend, 1000, 1), 0, kRanks, 16).pieces(), 1U);
  EXPECT_EQ(StagingPlan(call_of(Collective::kBarrier, 0), 0, kRanks, 16).pieces(), 1U);
  EXPECT_EQ(StagingPlan(call_of(Collective::kAllReduce, 0), 0, kRanks, 16).slot_bytes(), 0U);
}

}  // namespace
}  // namespace gimbal
