#include "runtime/chunk_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace gimbal::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BufferLayout layout(Collective collective, Rank nranks, Rank rank, size_t count) {
  BufferLayout result;
  result.collective = collective;
  result.nranks = nranks;
  result.rank = rank;
  result.count = count;
  return result;
}

ChunkTable make_table(const BufferLayout& buffers, uint32_t chunk_count, size_t element_bytes = 4) {
  Result<ChunkTable> table = ChunkTable::make(buffers, element_bytes, chunk_count);
  EXPECT_TRUE(table.ok()) << table.status().message();
  return *std::move(table);
}

std::vector<size_t> counts(const ChunkTable& table, uint32_t chunk_count) {
  std::vector<size_t> result;
  for (uint32_t chunk = 0; chunk < chunk_count; ++chunk) result.push_back(table.count(chunk));
  return result;
}

TEST(ChunkTable, GivesTheFirstChunksWhatDoesNotDivide) {
  EXPECT_THAT(counts(make_table(layout(Collective::kAllReduce, 4, 0, 10), 4), 4), ElementsAre(3, 3, 2, 2));
}

TEST(ChunkTable, LeavesChunksEmptyWhenThereAreFewerElements) {
  EXPECT_THAT(counts(make_table(layout(Collective::kAllReduce, 4, 0, 2), 4), 4), ElementsAre(1, 1, 0, 0));
}

TEST(ChunkTable, CoversTheVectorWithoutGapOrOverlap) {
  for (const size_t count : {0UL, 1UL, 7UL, 1000UL, 4096UL, 100003UL, (size_t{1} << 33) + 5}) {
    for (const uint32_t chunk_count : {1U, 3U, 16U, 17U}) {
      const ChunkTable table = make_table(layout(Collective::kAllReduce, 4, 0, count), chunk_count);
      size_t next = 0;
      for (uint32_t chunk = 0; chunk < chunk_count; ++chunk) {
        ASSERT_EQ(table.offset(BufferId::kInput, chunk), next) << count << " elements in " << chunk_count << " chunks";
        next += table.count(chunk);
        ASSERT_LE(table.count(chunk), table.largest_count());
      }
      ASSERT_EQ(next, count);
    }
  }
}

TEST(ChunkTable, BeginsLargeChunksAtCacheLines) {
  const ChunkTable table = make_table(layout(Collective::kAllReduce, 3, 0, 100003), 3, 2);
  for (uint32_t chunk = 0; chunk < 3; ++chunk) EXPECT_EQ(*table.offset(BufferId::kInput, chunk) * 2 % 64, 0U);
}

TEST(ChunkTable, PutsTheOwnBlockOfAReduceScatterAtTheStartOfTheOutput) {
  const ChunkTable table = make_table(layout(Collective::kReduceScatter, 3, 1, 10), 6);
  EXPECT_EQ(table.offset(BufferId::kInput, 3), 15U);
  EXPECT_EQ(table.offset(BufferId::kOutput, 3), 5U);
  EXPECT_EQ(table.offset(BufferId::kOutput, 0), std::nullopt);
}

TEST(ChunkTable, LetsOnlyTheRootHoldAllBlocksOfAGather) {
  EXPECT_EQ(make_table(layout(Collective::kGather, 3, 0, 10), 3).offset(BufferId::kOutput, 2), 20U);
  EXPECT_EQ(make_table(layout(Collective::kGather, 3, 2, 10), 3).offset(BufferId::kOutput, 2), std::nullopt);
  EXPECT_EQ(make_table(layout(Collective::kGather, 3, 2, 10), 3).offset(BufferId::kInput, 2), 0U);
}

TEST(ChunkTable, FindsTheBlocksOfAnAllToAllByTheirTwoRanks) {
  const ChunkTable table = make_table(layout(Collective::kAllToAll, 3, 1, 10), 9);
  EXPECT_EQ(table.offset(BufferId::kInput, 3 + 2), 20U);   // from 1 to 2
  EXPECT_EQ(table.offset(BufferId::kOutput, 6 + 1), 20U);  // from 2 to 1
  EXPECT_EQ(table.offset(BufferId::kOutput, 6 + 2), std::nullopt);
  EXPECT_FALSE(table.runs_are_contiguous());
}

TEST(ChunkTable, TakesCountsAndDisplacementsOfAnAllToAllV) {
  const std::array<size_t, 2> send_counts = {3, 4}, recv_counts = {5, 4}, recv_displacements = {100, 50};
  BufferLayout buffers = layout(Collective::kAllToAllV, 2, 1, 0);
  buffers.send_counts = send_counts;
  buffers.recv_counts = recv_counts;
  buffers.recv_displacements = recv_displacements;
  const ChunkTable table = make_table(buffers, 4);
  EXPECT_THAT(counts(table, 4), ElementsAre(0, 5, 3, 4));
  EXPECT_EQ(table.offset(BufferId::kInput, 3), 3U);
  EXPECT_EQ(table.offset(BufferId::kOutput, 1), 100U);
  EXPECT_EQ(table.offset(BufferId::kOutput, 3), 50U);
  EXPECT_EQ(table.largest_count(), 5U);
}

TEST(ChunkTable, RefusesAnAllToAllVThatDisagreesWithItself) {
  const std::array<size_t, 2> send_counts = {3, 4}, recv_counts = {5, 6};
  BufferLayout buffers = layout(Collective::kAllToAllV, 2, 1, 0);
  buffers.send_counts = send_counts;
  buffers.recv_counts = recv_counts;
  const auto table = ChunkTable::make(buffers, 4, 4);
  EXPECT_EQ(table.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(table.status().message(), HasSubstr("rank 1 sends itself 4 elements and receives 6"));
}

TEST(ChunkTable, RefusesArraysThatDoNotHaveOneEntryPerRank) {
  const std::array<size_t, 2> recv_counts = {5, 6};
  BufferLayout buffers = layout(Collective::kAllGatherV, 3, 1, 0);
  buffers.recv_counts = recv_counts;
  EXPECT_THAT(ChunkTable::make(buffers, 4, 3).status().message(), HasSubstr("recv_counts has 2 entries"));
}

TEST(ChunkTable, RefusesAScheduleThatDoesNotDivideIntoTheBlocks) {
  const auto table = ChunkTable::make(layout(Collective::kAllGather, 3, 1, 10), 4, 4);
  EXPECT_EQ(table.status().code(), Code::kInternal);
}

}  // namespace
}  // namespace gimbal::test
