// SmallExchange, StagedExchange and DirectExchange, driven by hand in every order that a seed gives.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/runtime/node_world.h"

namespace gimbal::test {
namespace {

constexpr Collective kStaged[] = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                  Collective::kBroadcast, Collective::kReduce,        Collective::kAllToAll,
                                  Collective::kGather,    Collective::kScatter};

const Algorithm* any_algorithm(Collective collective) { return algorithms_for(collective).front(); }

// A case of uint32 sums: exact.
CollectiveCase make_case(Collective collective, Rank nranks, size_t count, uint64_t seed) {
  CollectiveCase c;
  c.algorithm = any_algorithm(collective);
  c.nranks = nranks;
  c.count = count;
  c.dtype = DType::kUint32;
  c.root = static_cast<Rank>(seed % static_cast<uint64_t>(nranks));
  c.seed = seed;
  return c;
}

// Around the chunks of 64 and 256 elements and the blocks that they are divided into, and fewer than there are ranks.
constexpr size_t kCounts[] = {1,  2,   3,   12,  13,  16,  17,  51,  63,  64,  65,  85,
                              86, 127, 128, 129, 255, 256, 257, 511, 513, 768, 1025};

NodeStep random_step(Rank nranks, uint64_t seed, std::mt19937_64& random) {
  const auto pick = [&random](size_t below) { return static_cast<size_t>(random() % below); };
  NodeStep step;
  step.c = make_case(kStaged[pick(std::size(kStaged))], nranks, kCounts[pick(std::size(kCounts))], seed);
  step.c.in_place = step.c.collective() != Collective::kAllToAll && pick(2) == 0;
  step.staged.chunk_bytes = pick(2) == 0 ? 256 : 1024;
  step.staged.two_shot = step.c.collective() == Collective::kAllReduce && pick(2) == 0;
  step.staged.stage_store = pick(4) == 0 ? StoreMode::kStreaming : StoreMode::kCached;
  step.staged.result_store = pick(4) == 0 ? StoreMode::kStreaming : StoreMode::kCached;
  step.staged.output_store = pick(4) == 0 ? StoreMode::kStreaming : StoreMode::kCached;
  step.direct.two_shot = pick(2) == 0;
  step.direct.store = pick(4) == 0 ? StoreMode::kStreaming : StoreMode::kCached;
  if (DirectExchange::serves(step.c.collective()) && pick(2) == 0) {
    step.way = Way::kDirect;
    if (pick(3) == 0) step.ordinary_ranks = 1U << pick(static_cast<size_t>(nranks));
  }
  Call call;
  call.collective = step.c.collective();
  call.dtype = step.c.dtype;
  call.count = step.c.count;
  if (SmallExchange::serves(call) && pick(2) == 0) step.way = Way::kSmall;
  return step;
}

// Moves ranks at random until all have done all steps; the slow one moves once in fifty times.
void run_at_random(NodeWorld& world, const std::vector<NodeStep>& steps, size_t nranks, size_t slow, std::mt19937_64& random) {
  while (!world.all_finished(steps.size())) {
    size_t rank = random() % nranks;
    if (rank == slow && random() % 50 != 0) rank = (rank + 1) % nranks;
    if (!world.rank(rank).move(steps)) return;
  }
}

class MixedOperations : public testing::TestWithParam<int> {};

TEST_P(MixedOperations, AreExactHoweverFarRanksRunAhead) {
  const auto nranks = static_cast<Rank>(GetParam());
  constexpr size_t kSteps = 1500;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<NodeStep> steps;
    steps.reserve(kSteps);
    for (size_t i = 0; i < kSteps; ++i) steps.push_back(random_step(nranks, i, random));
    NodeWorld world(nranks, 1024);
    const auto ranks = static_cast<size_t>(nranks);
    run_at_random(world, steps, ranks, seed % ranks, random);
    ASSERT_TRUE(world.all_finished(kSteps)) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, MixedOperations, testing::Values(1, 2, 3, 5));

class EveryCollective : public testing::TestWithParam<Collective> {};

TEST_P(EveryCollective, IsExactAtEveryCountRootAndPlace) {
  for (const Rank nranks : {2, 3, 4}) {
    std::vector<NodeStep> steps;
    for (const size_t count : kCounts) {
      for (Rank root = 0; root < nranks; ++root) {
        for (const bool in_place : {false, true}) {
          if (in_place && GetParam() == Collective::kAllToAll) continue;
          for (const bool two_shot : {false, true}) {
            if (two_shot && GetParam() != Collective::kAllReduce) continue;
            NodeStep step;
            step.c = make_case(GetParam(), nranks, count, steps.size());
            step.c.root = root;
            step.c.in_place = in_place;
            step.staged = {.chunk_bytes = 256, .two_shot = two_shot};
            steps.push_back(step);
          }
        }
      }
    }
    std::mt19937_64 random(7);
    NodeWorld world(nranks, 256);
    const auto ranks = static_cast<size_t>(nranks);
    run_at_random(world, steps, ranks, ranks, random);
    ASSERT_TRUE(world.all_finished(steps.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Staged, EveryCollective, testing::ValuesIn(kStaged),
                         [](const auto& tested) { return std::string(collective_name(tested.param)); });

// The checker's own check: a stage slot that is written while a slow rank still reads it shows as a wrong element.
TEST(NodeWorldCheck, FindsASlotThatWasOverwrittenTooEarly) {
  NodeStep step;
  step.c = make_case(Collective::kAllReduce, 2, 64, 3);
  step.staged.chunk_bytes = 256;
  const std::vector<NodeStep> steps = {step};
  NodeWorld world(2, 256);
  ASSERT_TRUE(world.rank(0).move(steps));
  std::memset(world.memory().stage(0, 1), 0x11, 4);
  EXPECT_NONFATAL_FAILURE(world.rank(1).move(steps), "at 0, expected");
}

// A rank alone must not get further than its slots: it would overwrite what nobody has read.
TEST(StagedExchange, StopsWhenItsPeersHaveNotReadItsSlots) {
  NodeStep step;
  step.c = make_case(Collective::kAllReduce, 2, 64 * 100, 1);
  step.staged.chunk_bytes = 256;
  const std::vector<NodeStep> steps = {step};
  NodeWorld world(2, 256);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(world.rank(0).move(steps));
  const auto staged = [&world](uint32_t slot) { return world.memory().control(0).staged[slot].word.load() >> 32; };
  EXPECT_EQ(staged(StagedExchange::kAhead), StagedExchange::kAhead);
  EXPECT_EQ(staged(StagedExchange::kAhead + 1), 0U);
}

TEST(SmallExchange, ServesWhatFitsBesideItsFlag) {
  Call call;
  call.collective = Collective::kAllReduce;
  call.dtype = DType::kUint8;
  call.count = SmallSlot::kPayloadBytes;
  EXPECT_TRUE(SmallExchange::serves(call));
  call.count = SmallSlot::kPayloadBytes + 1;
  EXPECT_FALSE(SmallExchange::serves(call));
  call.collective = Collective::kAllToAll;
  call.count = 0;
  EXPECT_TRUE(SmallExchange::serves(call)) << "nothing to move, but signatures to compare";
}

}  // namespace
}  // namespace gimbal::test
