#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/transport/rank_threads.h"
#include "transport/bytes.h"
#include "transport/store.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;

Deadline soon() { return Deadline::after_ms(30'000); }

class FileStoreFolder : public ::testing::Test {
 protected:
  ~FileStoreFolder() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = ::testing::TempDir() + unique_name();
  const std::string rendezvous_ = "file://" + folder_;
};

TEST_F(FileStoreFolder, IsGoneWhenRankZeroHasEnded) {
  {
    const std::unique_ptr<Store> store = open_store(rendezvous_, 0, "", soon()).value();
    ASSERT_TRUE(store->set("key", as_bytes("value")).ok());
    EXPECT_TRUE(std::filesystem::exists(folder_));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(FileStoreFolder, KeepsWhatOthersPutThere) {
  std::filesystem::create_directory(folder_);
  std::ofstream(folder_ + "/notes") << "mine";
  { const std::unique_ptr<Store> store = open_store(rendezvous_, 0, "", soon()).value(); }
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/notes"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/session"));
}

TEST_F(FileStoreFolder, IsWaitedForByTheOtherRanks) {
  std::unique_ptr<Store> rank0;
  const auto counts = run_ranks(3, [&](Rank rank) {
    std::unique_ptr<Store> own = open_store(rendezvous_, rank, "", soon()).value();
    const std::unique_ptr<Store>& store = rank == 0 ? rank0 = std::move(own) : own;
    const int64_t count = store->add("arrived", 1).value();
    if (count == 3) static_cast<void>(store->set("all", {}));
    return store->wait("all", soon()).ok() ? count : -1;
  });
  EXPECT_THAT(counts, ::testing::UnorderedElementsAre(1, 2, 3));
}

TEST_F(FileStoreFolder, NamesAPathThatIsNoFolder) {
  std::ofstream(folder_) << "a file";
  EXPECT_THAT(open_store(rendezvous_, 0, "", soon()).status().message(), HasSubstr("Not a directory"));
}

TEST_F(FileStoreFolder, RefusesARankWithAnotherKey) {
  const std::unique_ptr<Store> store = open_store(rendezvous_, 0, "right", soon()).value();
  EXPECT_EQ(open_store(rendezvous_, 1, "wrong", soon()).status().message(),
            rendezvous_ + " belongs to another job, or to one with another GIMBAL_JOB_KEY");
}

}  // namespace
}  // namespace gimbal::testing
