#include "base/handle_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace gimbal {
namespace {

constexpr uintptr_t kTag = 5;
using Table = HandleTable<int, kTag>;

TEST(HandleTable, FindsWhatWasInserted) {
  Table table;
  const auto object = std::make_shared<int>(42);
  const uintptr_t handle = table.insert(object);
  EXPECT_NE(handle, 0u);
  EXPECT_EQ(table.find(handle), object.get());
  EXPECT_EQ(table.share(handle), object);
}

TEST(HandleTable, AnErasedHandleNamesNothing) {
  Table table;
  const uintptr_t handle = table.insert(std::make_shared<int>(1));
  EXPECT_NE(table.erase(handle), nullptr);
  EXPECT_EQ(table.find(handle), nullptr);
  EXPECT_EQ(table.share(handle), nullptr);
  EXPECT_EQ(table.erase(handle), nullptr);
}

TEST(HandleTable, AStaleHandleDoesNotNameTheObjectThatTookItsSlot) {
  Table table;
  const uintptr_t stale = table.insert(std::make_shared<int>(1));
  table.erase(stale);
  const uintptr_t fresh = table.insert(std::make_shared<int>(2));
  ASSERT_NE(fresh, stale);
  EXPECT_EQ(table.find(stale), nullptr);
  EXPECT_EQ(table.erase(stale), nullptr);
  EXPECT_EQ(*table.find(fresh), 2);
}

TEST(HandleTable, InventedHandlesNameNothing) {
  Table table;
  const uintptr_t handle = table.insert(std::make_shared<int>(1));
  int on_the_stack = 0;
  for (const uintptr_t invented :
       {uintptr_t{0}, uintptr_t{1}, kTag, ~uintptr_t{0}, handle + 16, handle + (uintptr_t{1} << 32), handle ^ 1,
        uintptr_t{0xdeadbeef}, reinterpret_cast<uintptr_t>(&on_the_stack), reinterpret_cast<uintptr_t>(&table)}) {
    EXPECT_EQ(table.find(invented), nullptr) << invented;
    EXPECT_EQ(table.share(invented), nullptr) << invented;
    EXPECT_EQ(table.erase(invented), nullptr) << invented;
  }
}

TEST(HandleTable, AHandleOfAnotherKindNamesNothing) {
  Table table;
  HandleTable<int, 9> others;
  table.insert(std::make_shared<int>(1));
  EXPECT_EQ(table.find(others.insert(std::make_shared<int>(1))), nullptr);
}

TEST(HandleTable, HoldsAnObjectUntilItIsErased) {
  Table table;
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = object;
  const uintptr_t handle = table.insert(std::move(object));
  EXPECT_FALSE(watch.expired());
  table.erase(handle);
  EXPECT_TRUE(watch.expired());
}

TEST(HandleTable, GrowsBeyondItsFirstBlockAndKeepsWhatItHas) {
  constexpr int kObjects = 1000;
  Table table;
  std::vector<uintptr_t> handles;
  for (int i = 0; i < kObjects; ++i) handles.push_back(table.insert(std::make_shared<int>(i)));
  EXPECT_EQ(std::set<uintptr_t>(handles.begin(), handles.end()).size(), static_cast<size_t>(kObjects));
  for (int i = 0; i < kObjects; ++i) EXPECT_EQ(*table.find(handles[static_cast<size_t>(i)]), i);
}

TEST(HandleTable, GivesZeroWhenItIsFull) {
  constexpr int kSlots = 1 << 18;
  Table table;
  const auto object = std::make_shared<int>(1);
  uintptr_t last = 0;
  for (int i = 0; i < kSlots; ++i) last = table.insert(object);
  ASSERT_NE(last, 0u);
  EXPECT_EQ(table.insert(object), 0u);
  table.erase(last);
  EXPECT_NE(table.insert(object), 0u);
}

TEST(HandleTable, ThreadsThatInsertFindAndEraseSeeOnlyTheirOwnObjects) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  Table table;
  std::atomic<int> wrong = 0;
  const auto work = [&](int id) {
    uintptr_t previous = 0;
    for (int round = 0; round < kRounds; ++round) {
      const int value = id * kRounds + round;
      const uintptr_t handle = table.insert(std::make_shared<int>(value));
      const int* found = table.find(handle);
      const std::shared_ptr<int> shared = table.share(handle);
      if (found == nullptr || *found != value || shared == nullptr || *shared != value) ++wrong;
      if (table.find(previous) != nullptr) ++wrong;
      if (table.erase(handle) == nullptr) ++wrong;
      previous = handle;
    }
  };
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) threads.emplace_back(work, id);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(HandleTable, AnotherThreadsShareKeepsTheObjectAliveThroughErase) {
  Table table;
  const uintptr_t handle = table.insert(std::make_shared<int>(7));
  std::atomic<bool> erased = false;
  std::atomic<bool> shared = false;
  int value = 0;
  std::thread other([&] {
    const std::shared_ptr<int> object = table.share(handle);
    shared = true;
    shared.notify_one();
    erased.wait(false);
    value = *object;
  });
  shared.wait(false);
  table.erase(handle);
  erased = true;
  erased.notify_one();
  other.join();
  EXPECT_EQ(value, 7);
}

}  // namespace
}  // namespace gimbal
