#include "collectives/algorithm.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "collectives/algorithms.h"
#include "collectives/printer.h"

namespace gimbal {
namespace {

TEST(Registry, NamesAreUniquePerCollective) {
  std::set<std::pair<Collective, std::string>> names;
  for (const Algorithm& algorithm : algorithms()) {
    EXPECT_TRUE(names.emplace(algorithm.collective, std::string(algorithm.name)).second) << algorithm.name;
    EXPECT_EQ(find_algorithm(algorithm.collective, algorithm.name), &algorithm);
  }
}

TEST(Registry, UnknownNamesAreNotFound) {
  EXPECT_EQ(find_algorithm(Collective::kAllReduce, "telepathy"), nullptr);
  EXPECT_EQ(find_algorithm(Collective::kBarrier, "ring"), nullptr);
}

TEST(Registry, TheVFormsUseTheAlgorithmsOfThePlainOnes) {
  EXPECT_EQ(algorithms_for(Collective::kAllGatherV), algorithms_for(Collective::kAllGather));
  EXPECT_EQ(find_algorithm(Collective::kAllToAllV, "all_pairs"), find_algorithm(Collective::kAllToAll, "all_pairs"));
  const CollectiveSpec spec = {.collective = Collective::kAllGatherV, .nranks = 3};
  EXPECT_EQ(admits(*find_algorithm(Collective::kAllGatherV, "ring"), spec), "");
}

TEST(Admits, SaysWhatIsWrongAndWhatIsAllowed) {
  const Algorithm& ring = *find_algorithm(Collective::kAllReduce, "ring");
  EXPECT_EQ(admits(ring, {.nranks = 4}), "");
  EXPECT_EQ(admits(ring, {.collective = Collective::kReduce, .nranks = 4}), "ring is a schedule of all_reduce, not of reduce");
  EXPECT_EQ(admits(ring, {.nranks = 0}), "nranks is 0; allowed: at least 1");
  EXPECT_EQ(admits(ring, {.nranks = 4, .root = -1}), "root is -1; allowed: 0 to 3");
  EXPECT_EQ(admits(ring, {.nranks = 4, .channels = 0}), "channels is 0; allowed: 1 to 255");
  EXPECT_EQ(admits(ring, {.nranks = 4, .pieces = 0}), "pieces is 0; allowed: at least 1");
  EXPECT_EQ(admits(ring, {.nranks = 1000, .channels = 255, .pieces = 100'000}),
            "255 channels of 100000 pieces over 1000 ranks are more than 2^31 chunks");
}

TEST(ChunkSpace, LanesOfABlockAreNeighboursAndRunsOfALaneStayWhole) {
  const CollectiveSpec gather = {.collective = Collective::kAllGather, .nranks = 3, .channels = 2};
  const Schedule blocks = build_schedule(*find_algorithm(Collective::kAllGather, "bruck"), gather, 0, Fusion::kNone);
  EXPECT_EQ(blocks.chunk_count, 6U);
  EXPECT_EQ(blocks.steps[0].chunk, 0U);  // channel 0 of block 0
  EXPECT_EQ(blocks.steps[2].chunk, 2U);  // channel 0 of block 1
  const CollectiveSpec reduce = {.nranks = 4, .channels = 2};
  const Schedule parts = build_schedule(*find_algorithm(Collective::kAllReduce, "halving_doubling"), reduce, 0, Fusion::kNone);
  EXPECT_EQ(parts.chunk_count, 8U);
  EXPECT_EQ(describe(parts.steps[0]), "send chunks 2..3 input to 1 (raw)");
}

TEST(PointToPoint, IsOneMessagePerLane) {
  const CollectiveSpec spec = {.collective = Collective::kSend, .nranks = 5, .channels = 2, .pieces = 2};
  const Schedule send = send_to(3, spec);
  const Schedule recv = recv_from(1, spec);
  ASSERT_EQ(send.steps.size(), 4U);
  ASSERT_EQ(recv.steps.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(send.steps[i].chunk, recv.steps[i].chunk);
    EXPECT_EQ(send.steps[i].payload, recv.steps[i].payload);
    EXPECT_EQ(send.steps[i].channel, recv.steps[i].channel);
  }
}

TEST(Printer, ShowsOneStepALine) {
  const Schedule schedule = build_schedule(*find_algorithm(Collective::kAllReduce, "ring"), {.nranks = 3}, 0, Fusion::kNone);
  EXPECT_EQ(print(schedule),
            "3 chunks, 1 channels, 8 steps\n"
            "channel 0  0: send chunk 2 input to 1 (raw)\n"
            "channel 0  1: recv_reduce chunk 1 from 2 (raw) + input -> scratch\n"
            "channel 0  2: send chunk 1 scratch to 1 (partial) after 1\n"
            "channel 0  3: recv_reduce chunk 0 from 2 (partial) + input -> output\n"
            "channel 0  4: send chunk 0 output to 1 (final) after 3\n"
            "channel 0  5: recv chunk 2 from 2 (final) -> output after 0\n"
            "channel 0  6: send chunk 2 output to 1 (final) after 5\n"
            "channel 0  7: recv chunk 1 from 2 (final) -> output\n");
}

TEST(Printer, ShowsRanksSideBySide) {
  const CollectiveSpec spec = {.collective = Collective::kBroadcast, .nranks = 3};
  EXPECT_EQ(print_side_by_side(build_all(*find_algorithm(Collective::kBroadcast, "chain"), spec, Fusion::kFused)),
            "rank 0                                    rank 1                                                        rank 2\n"
            "0: send chunk 0 input to 1 (final)        0: recv_send chunk 0 from 0 (final) -> output, to 2 (final)   "
            "0: recv chunk 0 from 1 (final) -> output\n"
            "1: copy chunk 0 input -> output after 0\n");
}

}  // namespace
}  // namespace gimbal
