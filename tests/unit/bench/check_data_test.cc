#include "tools/gimbal_bench/check_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace gimbal::bench {
namespace {

constexpr Rank kRanks = 3;

// The buffers of all ranks for one operation, and the result as the collective's definition has it, made by plain loops.
struct World {
  explicit World(const Operation& wanted) : operation(wanted) {
    const size_t bytes = array_elements(operation, kRanks) * dtype_size(operation.dtype) + 1;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      sends.emplace_back(bytes);
      receives.emplace_back(bytes);
      write_inputs(operation, rank, kRanks, 1, buffers(rank));
    }
  }
  Buffers buffers(Rank rank) { return {sends[static_cast<size_t>(rank)].data(), receives[static_cast<size_t>(rank)].data()}; }
  size_t wrong() {
    size_t all = 0;
    for (Rank rank = 0; rank < kRanks; ++rank) all += count_wrong(operation, rank, kRanks, 1, buffers(rank));
    return all;
  }

  Operation operation;
  std::vector<std::vector<std::byte>> sends;
  std::vector<std::vector<std::byte>> receives;
};

// More than one period, so that it must repeat.
constexpr size_t kCount = kPeriod + 1000;

void all_reduce_int32(World& world) {
  for (size_t i = 0; i < kCount; ++i) {
    uint32_t sum = 0;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      uint32_t value = 0;
      std::memcpy(&value, world.buffers(rank).send + 4 * i, 4);
      sum += value;
    }
    for (Rank rank = 0; rank < kRanks; ++rank) std::memcpy(world.buffers(rank).receive + 4 * i, &sum, 4);
  }
}

TEST(CheckData, HasEveryElementWrongBeforeTheCall) {
  World world({Kind::kAllReduce, DType::kInt32, ReduceOp::kSum, 0, kCount});

  EXPECT_EQ(world.wrong(), kRanks * kCount);
}

TEST(CheckData, FindsARightAllReduceRight) {
  World world({Kind::kAllReduce, DType::kInt32, ReduceOp::kSum, 0, kCount});

  all_reduce_int32(world);

  EXPECT_EQ(world.wrong(), 0u);
}

TEST(CheckData, CountsOneFlippedBitAsOneElement) {
  World world({Kind::kAllReduce, DType::kInt32, ReduceOp::kSum, 0, kCount});
  all_reduce_int32(world);

  world.receives[2][4 * (kCount - 1)] ^= std::byte{1};

  EXPECT_EQ(world.wrong(), 1u);
}

TEST(CheckData, SeesBlocksThatChangedPlaces) {
  World world({Kind::kAllReduce, DType::kInt32, ReduceOp::kSum, 0, kCount});
  all_reduce_int32(world);

  std::swap_ranges(world.receives[0].begin(), world.receives[0].begin() + 4096, world.receives[0].begin() + 4096);

  EXPECT_GT(world.wrong(), 2000u);
}

TEST(CheckData, KnowsWhatAReduceScatterGivesEachRank) {
  World world({Kind::kReduceScatter, DType::kUint8, ReduceOp::kBxor, 0, kCount});
  for (Rank rank = 0; rank < kRanks; ++rank) {
    for (size_t i = 0; i < kCount; ++i) {
      std::byte value{0};
      for (Rank source = 0; source < kRanks; ++source)
        value ^= world.buffers(source).send[static_cast<size_t>(rank) * kCount + i];
      world.buffers(rank).receive[i] = value;
    }
  }

  EXPECT_EQ(world.wrong(), 0u);
}

TEST(CheckData, KnowsWhatAnAllGatherGivesEachRank) {
  World world({Kind::kAllGather, DType::kUint8, ReduceOp::kSum, 0, kCount});
  for (Rank rank = 0; rank < kRanks; ++rank) {
    for (Rank source = 0; source < kRanks; ++source) {
      std::memcpy(world.buffers(rank).receive + static_cast<size_t>(source) * kCount, world.buffers(source).send, kCount);
    }
  }

  EXPECT_EQ(world.wrong(), 0u);
}

TEST(CheckData, KnowsWhatAnAllToAllGivesEachRank) {
  World world({Kind::kAllToAll, DType::kUint8, ReduceOp::kSum, 0, kCount});
  for (Rank rank = 0; rank < kRanks; ++rank) {
    for (Rank source = 0; source < kRanks; ++source) {
      std::memcpy(world.buffers(rank).receive + static_cast<size_t>(source) * kCount,
                  world.buffers(source).send + static_cast<size_t>(rank) * kCount, kCount);
    }
  }

  EXPECT_EQ(world.wrong(), 0u);
}

TEST(CheckData, KnowsWhatAScatterFromTheLastRankGivesEachRank) {
  World world({Kind::kScatter, DType::kUint8, ReduceOp::kSum, kRanks - 1, kCount});
  for (Rank rank = 0; rank < kRanks; ++rank) {
    std::memcpy(world.buffers(rank).receive, world.buffers(kRanks - 1).send + static_cast<size_t>(rank) * kCount, kCount);
  }

  EXPECT_EQ(world.wrong(), 0u);
}

TEST(CheckData, KnowsWhatABroadcastGivesEachRank) {
  World world({Kind::kBroadcast, DType::kUint8, ReduceOp::kSum, 1, kCount});
  for (Rank rank = 0; rank < kRanks; ++rank) {
    if (rank != 1) std::memcpy(world.buffers(rank).receive, world.buffers(1).receive, kCount);
  }

  EXPECT_EQ(world.wrong(), 0u);
}

TEST(CheckData, LeavesTheInputsOfAnInPlaceAllGatherWhereTheResultWillBe) {
  const Operation operation = {Kind::kAllGather, DType::kUint8, ReduceOp::kSum, 0, 100};
  std::vector<std::byte> area(300);

  write_inputs(operation, 1, kRanks, 1, in_place(operation, 1, area.data()));

  EXPECT_EQ(count_wrong(operation, 1, kRanks, 1, in_place(operation, 1, area.data())), 200u);
}

}  // namespace
}  // namespace gimbal::bench
