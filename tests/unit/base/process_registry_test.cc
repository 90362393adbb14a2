#include "base/process_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace gimbal {
namespace {

Result<std::shared_ptr<int>> make_int(int value) { return std::make_shared<int>(value); }

TEST(ProcessRegistry, GivesTheSameObjectForTheSameKeyWhileSomebodyHoldsIt) {
  ProcessRegistry& registry = ProcessRegistry::instance();
  const auto first = registry.find_or_create<int>("same", [] { return make_int(1); });
  const auto second = registry.find_or_create<int>("same", [] { return make_int(2); });
  EXPECT_EQ(first.value(), second.value());
  EXPECT_EQ(*second.value(), 1);
}

TEST(ProcessRegistry, GivesDifferentObjectsForDifferentKeys) {
  ProcessRegistry& registry = ProcessRegistry::instance();
  const auto first = registry.find_or_create<int>("one", [] { return make_int(1); });
  const auto second = registry.find_or_create<int>("other", [] { return make_int(2); });
  EXPECT_NE(first.value(), second.value());
}

TEST(ProcessRegistry, CreatesAnewOnceNobodyHoldsTheObject) {
  ProcessRegistry& registry = ProcessRegistry::instance();
  auto first = registry.find_or_create<int>("again", [] { return make_int(1); });
  std::move(first).value().reset();
  const auto second = registry.find_or_create<int>("again", [] { return make_int(2); });
  EXPECT_EQ(*second.value(), 2);
}

TEST(ProcessRegistry, AFailedCreationIsReportedAndMayBeTriedAgain) {
  ProcessRegistry& registry = ProcessRegistry::instance();
  const auto failed = registry.find_or_create<int>(
      "failing", []() -> Result<std::shared_ptr<int>> { return Status(Code::kSystem, "no descriptors left"); });
  EXPECT_EQ(failed.status().message(), "no descriptors left");
  EXPECT_TRUE(registry.find_or_create<int>("failing", [] { return make_int(3); }).ok());
}

TEST(ProcessRegistry, ForgetsKeysWhoseObjectsAreGone) {
  ProcessRegistry& registry = ProcessRegistry::instance();
  registry.forget_expired();
  const size_t before = registry.size();
  const auto held = registry.find_or_create<int>("held", [] { return make_int(1); });
  {
    const auto dropped = registry.find_or_create<int>("dropped", [] { return make_int(2); });
  }
  EXPECT_EQ(registry.size(), before + 2);
  registry.forget_expired();
  EXPECT_EQ(registry.size(), before + 1);
}

TEST(ProcessRegistry, ThreadsThatAskAtOnceGetOneObject) {
  constexpr size_t kThreads = 4;
  std::atomic<int> created = 0;
  std::vector<std::shared_ptr<int>> objects(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto create = [&] {
        ++created;
        return make_int(1);
      };
      objects[i] = ProcessRegistry::instance().find_or_create<int>("raced", create).value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(created, 1);
  for (const auto& object : objects) EXPECT_EQ(object, objects[0]);
}

}  // namespace
}  // namespace gimbal
