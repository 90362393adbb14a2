#include "runtime/node_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace gimbal::test {
namespace {

NodeMemory make_memory(const NodeLayout& layout) {
  return {SharedSegment::create("test", layout.segment_bytes()).value(), layout};
}

struct Place {
  const std::byte* begin;
  size_t bytes;
};

template <typename T>
Place place_of(const T& object) {
  return {reinterpret_cast<const std::byte*>(&object), sizeof(T)};
}

std::vector<Place> all_places(const NodeMemory& memory) {
  const NodeLayout& layout = memory.layout();
  std::vector<Place> places = {place_of(memory.lot())};
  for (const Doorbell& doorbell : memory.doorbells()) places.push_back(place_of(doorbell));
  for (Rank rank = 0; rank < layout.nranks; ++rank) {
    places.push_back(place_of(memory.control(rank)));
    for (uint32_t epoch = 0; epoch < kSmallSlots; ++epoch) places.push_back(place_of(memory.small_slot(rank, epoch)));
    for (uint32_t epoch = 0; epoch < kStageSlots; ++epoch) {
      places.push_back({memory.stage(rank, epoch), layout.chunk_bytes});
      places.push_back({memory.result(rank, epoch), layout.result_bytes()});
    }
    for (Rank peer = 0; peer < layout.nranks; ++peer) {
      for (size_t set = 0; set < NodeLayout::kLaneSets; ++set) {
        const std::span<std::byte> lane = memory.lane(set, rank, peer);
        places.push_back({lane.data(), lane.size()});
      }
    }
  }
  return places;
}

TEST(NodeMemory, PlacesDoNotOverlapAndLieInsideTheSegment) {
  for (const Rank nranks : {1, 2, 3, 7, 17}) {
    for (const size_t chunk_bytes : {size_t{4096}, size_t{123000}, size_t{131074}, size_t{262144}}) {
      const NodeMemory memory = make_memory({.nranks = nranks, .chunk_bytes = chunk_bytes, .lane_bytes = 12352});
      std::vector<Place> places = all_places(memory);
      std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.begin < b.begin; });
      const std::byte* end = memory.segment().data();
      for (const Place& place : places) {
        ASSERT_GE(place.begin, end) << nranks << " ranks, chunks of " << chunk_bytes;
        end = place.begin + place.bytes;
      }
      EXPECT_LE(end, memory.segment().data() + memory.segment().bytes());
    }
  }
}

TEST(NodeMemory, ResultSlotsHoldTheLargestSlice) {
  for (const Rank nranks : {2, 3, 5, 16, 63}) {
    for (const size_t chunk_bytes : {size_t{4096}, size_t{123000}, size_t{262144}}) {
      const NodeLayout layout = {.nranks = nranks, .chunk_bytes = chunk_bytes};
      const size_t lines = (chunk_bytes + 63) / 64;
      for (size_t rank = 0; rank < static_cast<size_t>(nranks); ++rank) {
        const auto ranks = static_cast<size_t>(nranks);
        EXPECT_GE(layout.result_bytes(), (lines * (rank + 1) / ranks - lines * rank / ranks) * 64);
      }
    }
  }
}

TEST(NodeMemory, SlotsFollowEpochsAcrossTheirWrap) {
  const NodeMemory memory = make_memory({.nranks = 2});
  const uint32_t last = ~uint32_t{0};
  EXPECT_NE(memory.stage(1, last), memory.stage(1, last + 1));
  EXPECT_EQ(memory.stage(1, last), memory.stage(1, last - kStageSlots));
  EXPECT_NE(&memory.small_slot(0, last), &memory.small_slot(0, last + 1));
}

TEST(NodeMemory, FirstFaultSticks) {
  const NodeMemory memory = make_memory({.nranks = 3});
  EXPECT_FALSE(memory.faulted());
  memory.raise_fault(Status(Code::kTimeout, "the first"), 2);
  memory.raise_fault(Status(Code::kRemote, "the second"), 1);
  ASSERT_TRUE(memory.faulted());
  EXPECT_EQ(memory.fault().status.code(), Code::kTimeout);
  EXPECT_EQ(memory.fault().status.message(), "the first");
  EXPECT_EQ(memory.fault().origin, 2);
}

TEST(NodeMemory, FaultOfAnyLengthIsCutAndTerminated) {
  const NodeMemory memory = make_memory({.nranks = 2});
  memory.raise_fault(Status(Code::kMismatch, std::string(10'000, 'x')), 0);
  const std::string message = memory.fault().status.message();
  EXPECT_EQ(message, std::string(sizeof(SharedFault::message) - 1, 'x'));
}

// A peer's memory may hold anything.
TEST(NodeMemory, FaultWithACodeThatLosesNothingIsInternal) {
  const NodeMemory memory = make_memory({.nranks = 2});
  memory.raise_fault(Status(Code::kInvalidArgument, "not a fault"), 0);
  EXPECT_EQ(memory.fault().status.code(), Code::kInternal);
}

TEST(NodeMemory, RankThatDiedWhileItReportedAnErrorIsNamed) {
  const NodeMemory memory = make_memory({.nranks = 4});
  // As a rank leaves it that is killed between its claim and its last store.
  reinterpret_cast<SharedFault*>(memory.segment().data())->state.store(SharedFault::kClaimed | 3);
  ASSERT_TRUE(memory.faulted());
  const NodeMemory::Fault fault = memory.fault();
  EXPECT_EQ(fault.status.code(), Code::kRemote);
  EXPECT_EQ(fault.status.message(), "rank 3 is gone: it ended while it reported an error");
  EXPECT_EQ(fault.origin, 3);
}

TEST(NodeMemory, OneOfManyConcurrentFaultsSticks) {
  const NodeMemory memory = make_memory({.nranks = 8});
  std::vector<std::thread> threads;
  std::vector<Rank> origins(8);
  for (Rank rank = 0; rank < 8; ++rank) {
    threads.emplace_back([&memory, &origins, rank] {
      memory.raise_fault(Status(Code::kRemote, "from rank " + std::to_string(rank)), rank);
      const NodeMemory::Fault fault = memory.fault();
      origins[static_cast<size_t>(rank)] = fault.origin;
      EXPECT_EQ(fault.status.message(), "from rank " + std::to_string(fault.origin));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Rank origin : origins) EXPECT_EQ(origin, origins.front());
}

}  // namespace
}  // namespace gimbal::test
