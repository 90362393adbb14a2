// Splitting communicators, their zero-copy memory, and announced memory.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/support/expect_ok.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Communicators : public RanksTest, public testing::WithParamInterface<RankKind> {
 protected:
  static void run(int32_t ranks, const std::function<void(Communicator&)>& function) {
    run_ranks(GetParam(), ranks, [&](const RankContext& context) {
      Communicator communicator(context);
      function(communicator);
    });
  }
};

int32_t sum_of(gimbal_comm_t comm, int32_t value) {
  int32_t sum = 0;
  expect_ok(gimbal_all_reduce(&value, &sum, 1, GIMBAL_INT32, GIMBAL_SUM, comm, nullptr));
  return sum;
}

int32_t rank_of(gimbal_comm_t comm) {
  int32_t rank = -1;
  expect_ok(gimbal_comm_rank(comm, &rank));
  return rank;
}

int32_t size_of(gimbal_comm_t comm) {
  int32_t size = -1;
  expect_ok(gimbal_comm_size(comm, &size));
  return size;
}

TEST_P(Communicators, SplitByColorOrderByKeyThenRank) {
  run(5, [](Communicator& world) {
    const int32_t rank = world.rank();
    gimbal_comm_t child = nullptr;
    // Colors 0: ranks 0, 2, 4 with keys 7, 7, -1; color 1: ranks 1, 3.
    expect_ok(gimbal_comm_split(world.get(), rank % 2, rank == 4 ? -1 : 7, &child));
    constexpr int32_t kExpectedRanks[] = {1, 0, 2, 1, 0};
    EXPECT_EQ(rank_of(child), kExpectedRanks[rank]);
    EXPECT_EQ(size_of(child), rank % 2 == 0 ? 3 : 2);
    EXPECT_EQ(sum_of(child, rank), rank % 2 == 0 ? 6 : 4);
    expect_ok(gimbal_comm_destroy(child));
  });
}

TEST_P(Communicators, ColorMinusOneTakesPartAndGetsNone) {
  run(3, [](Communicator& world) {
    gimbal_comm_t child = nullptr;
    expect_ok(gimbal_comm_split(world.get(), world.rank() == 1 ? -1 : 0, 0, &child));
    EXPECT_EQ(child == nullptr, world.rank() == 1);
    if (child != nullptr) {
      EXPECT_EQ(sum_of(child, world.rank() + 1), 4);
    }
    if (child != nullptr) expect_ok(gimbal_comm_destroy(child));
    EXPECT_EQ(gimbal_comm_split(world.get(), -2, 0, &child), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("-2"));
    EXPECT_EQ(sum_of(world.get(), 1), 3);
  });
}

TEST_P(Communicators, SplitByNodeHoldsTheRanksOfThisMachine) {
  run(3, [](Communicator& world) {
    gimbal_comm_t node = nullptr;
    expect_ok(gimbal_comm_split(world.get(), world.rank() == 1 ? -1 : GIMBAL_SPLIT_NODE, 0, &node));
    if (world.rank() == 1) return;
    EXPECT_EQ(size_of(node), 2);
    expect_ok(gimbal_comm_destroy(node));
  });
}

TEST_P(Communicators, ParentChildAndGrandchildWorkInTurns) {
  run(4, [](Communicator& world) {
    const int32_t rank = world.rank();
    gimbal_comm_t child = nullptr;
    gimbal_comm_t grandchild = nullptr;
    gimbal_comm_t second_child = nullptr;
    expect_ok(gimbal_comm_split(world.get(), rank / 2, 0, &child));
    expect_ok(gimbal_comm_split(child, rank, 0, &grandchild));  // alone
    expect_ok(gimbal_comm_split(world.get(), 0, -rank, &second_child));
    for (int32_t round = 0; round < 20; ++round) {
      EXPECT_EQ(sum_of(world.get(), round), 4 * round);
      EXPECT_EQ(sum_of(child, round + rank), 2 * round + (rank < 2 ? 1 : 5));
      EXPECT_EQ(sum_of(grandchild, rank), rank);
      EXPECT_EQ(sum_of(second_child, 1), 4);
    }
    EXPECT_EQ(rank_of(second_child), 3 - rank);
    expect_ok(gimbal_comm_destroy(child));
    EXPECT_EQ(sum_of(grandchild, 5), 5) << "a child outlives its parent";
    EXPECT_EQ(sum_of(world.get(), 1), 4);
    expect_ok(gimbal_comm_destroy(grandchild));
    expect_ok(gimbal_comm_destroy(second_child));
  });
}

TEST_P(Communicators, ShrinkIsForThoseThatAreLeftAfterAFailure) {
  run(2, [](Communicator& world) {
    gimbal_comm_t out = nullptr;
    EXPECT_EQ(gimbal_comm_shrink(world.get(), &out), GIMBAL_INVALID_USAGE);
    EXPECT_THAT(gimbal_last_error(), testing::HasSubstr("has not failed"));
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(sum_of(world.get(), 1), 2) << "it works on";
  });
}

TEST_P(Communicators, AnyPartOfAllocatedMemoryMayBeUsed) {
  run(3, [](Communicator& world) {
    constexpr size_t kCount = 100'000;
    void* memory = nullptr;
    expect_ok(gimbal_mem_alloc(world.get(), GIMBAL_MEMORY_HOST, 2 * kCount * sizeof(int32_t) + 64, &memory));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0U);
    // Other offsets on every rank, and bytes that no vector is aligned to.
    for (const size_t offset : {size_t{0}, size_t{4} * static_cast<size_t>(world.rank() + 1), size_t{13}}) {
      auto* const send = static_cast<std::byte*>(memory) + offset;
      auto* const recv = send + kCount * sizeof(int32_t);
      const std::vector<int32_t> values(kCount, world.rank() + 1);
      std::memcpy(send, values.data(), kCount * sizeof(int32_t));
      expect_ok(gimbal_all_reduce(send, recv, kCount, GIMBAL_INT32, GIMBAL_SUM, world.get(), nullptr));
      std::vector<int32_t> result(kCount);
      std::memcpy(result.data(), recv, kCount * sizeof(int32_t));
      EXPECT_EQ(result, std::vector<int32_t>(kCount, 6)) << offset;
    }
    expect_ok(gimbal_mem_free(world.get(), memory));
  });
}

TEST_P(Communicators, AllocatedOnOneRankAndOrdinaryOnAnotherIsServed) {
  run(3, [](Communicator& world) {
    for (int32_t ordinary = 0; ordinary < 3; ++ordinary) {
      const MemoryKind kind = world.rank() == ordinary ? MemoryKind::kOrdinary : MemoryKind::kRegistered;
      void* unused = nullptr;
      if (kind == MemoryKind::kOrdinary) expect_ok(gimbal_mem_alloc(world.get(), GIMBAL_MEMORY_HOST, 400'128, &unused));
      Buffer buffer(world, kind, 400'000);
      for (const size_t count : {size_t{10}, size_t{3000}, size_t{100'000}}) {
        const auto values = buffer.place<int32_t>(count);
        std::fill(values.begin(), values.end(), world.rank() + 1);
        world.all_reduce(values.data(), values.data(), count, GIMBAL_INT32, GIMBAL_SUM);
        EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](int32_t value) { return value == 6; })) << count;
      }
    }
  });
}

TEST_P(Communicators, AllocationsOfOtherSizesAreAMismatchThatLosesTheCommunicator) {
  run(2, [](Communicator& world) {
    void* memory = nullptr;
    EXPECT_EQ(gimbal_mem_alloc(world.get(), GIMBAL_MEMORY_HOST, world.rank() == 0 ? 1000 : 2000, &memory), GIMBAL_MISMATCH);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("1000"), HasSubstr("2000")));
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(gimbal_comm_status(world.get()), GIMBAL_MISMATCH);
  });
}

TEST_P(Communicators, MemoryArgumentsThatMakeNoSenseAreRefused) {
  run(2, [](Communicator& world) {
    void* memory = nullptr;
    EXPECT_EQ(gimbal_mem_alloc(world.get(), GIMBAL_MEMORY_CUDA, 100, &memory), GIMBAL_UNSUPPORTED);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("GIMBAL_MEMORY_CUDA"));
    EXPECT_EQ(gimbal_mem_alloc(world.get(), GIMBAL_MEMORY_HOST, 0, &memory), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(gimbal_mem_alloc(world.get(), GIMBAL_MEMORY_HOST, SIZE_MAX, &memory), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(gimbal_mem_alloc(world.get(), GIMBAL_MEMORY_HOST, 100, nullptr), GIMBAL_INVALID_ARGUMENT);
    int32_t foreign = 0;
    EXPECT_EQ(gimbal_mem_free(world.get(), &foreign), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(gimbal_mem_free(world.get(), nullptr), GIMBAL_INVALID_ARGUMENT);

    EXPECT_EQ(gimbal_register(world.get(), nullptr, 4), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(gimbal_register(world.get(), &foreign, 0), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(gimbal_deregister(world.get(), &foreign), GIMBAL_INVALID_ARGUMENT);
    expect_ok(gimbal_register(world.get(), &foreign, sizeof(foreign)));
    EXPECT_EQ(gimbal_register(world.get(), &foreign, sizeof(foreign)), GIMBAL_INVALID_ARGUMENT);
    expect_ok(gimbal_deregister(world.get(), &foreign));
    EXPECT_EQ(gimbal_deregister(world.get(), &foreign), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(sum_of(world.get(), 1), 2) << "the communicator serves the next call";
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Communicators, testing::ValuesIn(rank_kinds()), kind_test_name);

}  // namespace
}  // namespace gimbal::test
