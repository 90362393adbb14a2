#include "runtime/cpu_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/executor_world.h"
#include "tests/support/hand_ring.h"
#include "tests/support/values.h"

namespace gimbal::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kSlotBytes = 64;
constexpr size_t kWindow = 2;

std::unique_ptr<WorldRank> make_rank(const Schedule& schedule, PlanOptions options) {
  auto rank = std::make_unique<WorldRank>();
  options.slice_bytes = kSlotBytes;
  options.window = kWindow;
  Result<Plan> plan = make_plan(schedule, options);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  rank->plan = *std::move(plan);
  const size_t bytes = options.layout.count * dtype_size(options.dtype);
  rank->input = GuardedBuffer(bytes);
  rank->output = GuardedBuffer(bytes);
  rank->scratch = GuardedBuffer(rank->plan.scratch_bytes);
  return rank;
}

ExecutorWorld ring_world(Mesh& mesh, Rank nranks, size_t count) {
  std::vector<std::unique_ptr<WorldRank>> ranks;
  for (Rank r = 0; r < nranks; ++r) {
    PlanOptions options;
    options.layout = {.nranks = nranks, .rank = r, .count = count};
    ranks.push_back(make_rank(hand_ring(nranks, r), options));
    const auto input = pack(DType::kFloat32, std::vector<double>(count, r + 1));
    std::copy(input.begin(), input.end(), ranks.back()->input.data());
  }
  return {mesh, std::move(ranks)};
}

Mesh ring_mesh(Rank nranks) { return Mesh({.nranks = nranks, .slot_bytes = kSlotBytes, .window = kWindow}); }

// One rank of the ring of two, bound, against a peer played by the test.
struct Alone {
  Mesh mesh = ring_mesh(2);
  ExecutorWorld world = ring_world(mesh, 2, 8);
  CpuExecutor& executor = world.rank(0).executor;
  Endpoint& peer_side = *mesh.endpoints(1)[0];

  Alone() { EXPECT_TRUE(world.bind(0).ok()); }

  void send(uint64_t tag, size_t floats) {
    const auto slot = peer_side.acquire(0, floats * sizeof(float));
    ASSERT_TRUE(slot.ok());
    const auto ones = pack(DType::kFloat32, std::vector<double>(floats, 1));
    std::copy(ones.begin(), ones.end(), (**slot).begin());
    ASSERT_TRUE(peer_side.commit(0, floats * sizeof(float), tag).ok());
  }
};

TEST(CpuExecutor, AddsOverARingOfThreeWithChunksOfManyWindows) {
  Mesh mesh = ring_mesh(3);
  ExecutorWorld world = ring_world(mesh, 3, 1000);

  const Status status = world.run();

  ASSERT_TRUE(status.ok()) << status.message();
  for (Rank r = 0; r < 3; ++r) EXPECT_THAT(unpack(DType::kFloat32, world.rank(r).output.bytes()), Each(6.0));
}

TEST(CpuExecutor, CanBeBoundAgainWhenItIsDone) {
  Mesh mesh = ring_mesh(2);
  ExecutorWorld world = ring_world(mesh, 2, 8);
  ASSERT_TRUE(world.run().ok());
  std::fill_n(world.rank(0).output.data(), 32, std::byte{0});

  ASSERT_TRUE(world.run().ok());

  EXPECT_THAT(unpack(DType::kFloat32, world.rank(0).output.bytes()), Each(3.0));
}

TEST(CpuExecutor, ReturnsAgainAndNamesThePeerItWaitsFor) {
  Alone alone;
  ASSERT_EQ(*alone.executor.progress(), Progress::kAgain);  // its own send
  const uint64_t slices = alone.executor.slices();

  EXPECT_EQ(*alone.executor.progress(), Progress::kAgain);

  EXPECT_EQ(alone.executor.slices(), slices);
  ASSERT_TRUE(alone.executor.blocked().has_value());
  EXPECT_EQ(alone.executor.blocked()->peer, 1);
  EXPECT_FALSE(alone.executor.blocked()->sending);
  EXPECT_EQ(alone.executor.blocked()->schedule_step, 1U);
}

TEST(CpuExecutor, TakesAMessageOfAnotherOperationForAMismatch) {
  Alone alone;
  alone.send(8, 4);

  const auto progress = alone.executor.progress();

  EXPECT_EQ(progress.status().code(), Code::kMismatch);
  EXPECT_THAT(progress.status().message(),
              AllOf(HasSubstr("rank 1"), HasSubstr("0x0000000000000008"), HasSubstr("0x0000000000000007")));
  ASSERT_TRUE(alone.executor.mismatch().has_value());
  EXPECT_EQ(alone.executor.mismatch()->peer, 1);
  EXPECT_EQ(alone.executor.mismatch()->received, 8U);
}

TEST(CpuExecutor, TakesAMessageOfAnotherLengthForAnInternalError) {
  Alone alone;
  alone.send(7, 3);

  const auto progress = alone.executor.progress();

  EXPECT_EQ(progress.status().code(), Code::kInternal);
  EXPECT_THAT(progress.status().message(), HasSubstr("rank 1 sent 12 bytes on channel 0 where step 1 takes 16"));
}

TEST(CpuExecutor, NeedsNoMessageForChunksWithoutElements) {
  Mesh mesh = ring_mesh(3);
  ExecutorWorld world = ring_world(mesh, 3, 0);

  ASSERT_TRUE(world.run().ok());

  EXPECT_EQ(world.rank(0).executor.slices(), 0U);
}

TEST(CpuExecutor, RefusesEndpointsSmallerThanThePlan) {
  Mesh mesh({.nranks = 2, .slot_bytes = kSlotBytes / 2, .window = kWindow});
  ExecutorWorld world = ring_world(mesh, 2, 100);

  const Status status = world.bind(0);

  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("slots of 64 bytes to rank 1; its endpoint has 1 of 32"));
}

TEST(ExecutorWorld, NamesWhoWaitsForWhomInADeadlock) {
  Mesh mesh = ring_mesh(2);
  ExecutorWorld world = ring_world(mesh, 2, 8);
  world.rank(1).plan.steps[0][0].clear();  // never sends its own chunk

  const Status status = world.run();

  EXPECT_THAT(status.message(), AllOf(HasSubstr("nobody can move"), HasSubstr("rank 0 in step 1 waits for 1")));
}

}  // namespace
}  // namespace gimbal::test
