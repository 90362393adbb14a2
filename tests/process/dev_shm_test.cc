// Case C29: a /dev/shm that is tiny, full or read-only does not matter, because nothing is put there.
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/known_sum.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

struct Mount {
  const char* name;
  unsigned long flags;  // of mount(2)
  const char* options;
  bool fill;
};

class DevShm : public ProcessRanksTest, public testing::WithParamInterface<Mount> {
 protected:
  void SetUp() override {
    ProcessRanksTest::SetUp();
    if (IsSkipped()) return;
    // The fixture has given the test a mount namespace of its own, where it may.
    if (mount("tmpfs", "/dev/shm", "tmpfs", GetParam().flags, GetParam().options) != 0) {
      GTEST_SKIP() << "no mount over /dev/shm: " << strerror(errno);
    }
    mounted_ = true;
    if (GetParam().fill) {
      std::ofstream file("/dev/shm/filler");
      const std::string page(4096, 'x');
      while (file.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) {
      }
    }
  }
  void TearDown() override {
    if (mounted_) umount2("/dev/shm", MNT_DETACH);
    RanksTest::TearDown();
  }

 private:
  bool mounted_ = false;
};

size_t entries_of_dev_shm() {
  const std::filesystem::directory_iterator entries("/dev/shm");
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

TEST_P(DevShm, IsNotNeeded) {
  const size_t before = entries_of_dev_shm();
  for (const char* transport : {"auto", "shm"}) {
    run_ranks(RankKind::kProcesses, 4, [transport](const RankContext& context) {
      gimbal_config_t config = rank_config(context);
      config.transport = transport;
      Communicator communicator(config);
      void* memory = nullptr;
      EXPECT_EQ(gimbal_mem_alloc(communicator.get(), GIMBAL_MEMORY_HOST, size_t{4} << 20, &memory), GIMBAL_OK)
          << gimbal_last_error();
      KnownSum sum(communicator, size_t{1} << 20);
      expect_exact_sum(sum);
    });
  }
  EXPECT_EQ(entries_of_dev_shm(), before);
}

INSTANTIATE_TEST_SUITE_P(Mounts, DevShm,
                         testing::Values(Mount{"tiny", 0, "size=4k", false}, Mount{"full", 0, "size=1m", true},
                                         Mount{"read_only", MS_RDONLY, "size=1m", false}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace gimbal::test
