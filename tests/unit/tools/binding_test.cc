#include "tools/support/binding.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace gimbal {
namespace {

// A copy of the parts of sysfs that binding reads, with the given cores and NUMA nodes.
class FakeSysfs {
 public:
  FakeSysfs() {
    std::string pattern = std::filesystem::temp_directory_path() / "gimbal_sysfs_XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~FakeSysfs() { std::filesystem::remove_all(root_); }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;

  void add_core(const std::string& siblings) {
    for (const size_t cpu : parse_cpu_list(siblings)) {
      write("/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", siblings);
    }
  }
  void add_node(int number, const std::string& cpus) {
    write("/devices/system/node/node" + std::to_string(number) + "/cpulist", cpus);
  }
  [[nodiscard]] const std::string& root() const { return root_; }

 private:
  void write(const std::string& path, const std::string& line) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << line << "\n";
  }
  std::string root_;
};

TEST(CpuList, ReadsAndPrintsTheKernelsFormat) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11"), (CpuList{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(format_cpu_list({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(CpuList, IsEmptyForWhatIsNoList) {
  EXPECT_EQ(parse_cpu_list(""), CpuList());
  EXPECT_EQ(parse_cpu_list("0-"), CpuList());
  EXPECT_EQ(parse_cpu_list("zero"), CpuList());
}

TEST(SplitByCore, KeepsHyperthreadsTogetherAndLeavesOutWhatIsNotAllowed) {
  FakeSysfs sysfs;
  sysfs.add_core("0,4");
  sysfs.add_core("1,5");
  sysfs.add_core("2,6");

  EXPECT_EQ(split_by_core({0, 1, 4, 6}, sysfs.root()), (std::vector<CpuList>{{0, 4}, {1}, {6}}));
}

TEST(SplitByCore, TakesEachCpuAsACoreWhereSysfsSaysNothing) {
  EXPECT_EQ(split_by_core({3, 7}, "/nonexistent"), (std::vector<CpuList>{{3}, {7}}));
}

TEST(SplitByNumaNode, LeavesOutNodesWithoutAllowedCpus) {
  FakeSysfs sysfs;
  sysfs.add_node(0, "0-3");
  sysfs.add_node(1, "4-7");
  sysfs.add_node(2, "8-11");

  EXPECT_EQ(split_by_numa_node({2, 3, 8}, sysfs.root()), (std::vector<CpuList>{{2, 3}, {8}}));
}

TEST(SplitByNumaNode, IsOneNodeWhereSysfsSaysNothing) {
  EXPECT_EQ(split_by_numa_node({2, 5}, "/nonexistent"), (std::vector<CpuList>{{2, 5}}));
}

TEST(PlanBinding, BindsNothingUnlessAsked) {
  const BindingPlan plan = plan_binding(Binding::kNone, 4, {0, 1}, "/nonexistent");

  EXPECT_TRUE(plan.cpus.empty());
  EXPECT_EQ(plan.notice, "");
}

TEST(PlanBinding, StartsAgainFromTheFirstCoreWithANoticeWhenCoresRunOut) {
  const BindingPlan plan = plan_binding(Binding::kCore, 3, {1, 6}, "/nonexistent");

  EXPECT_EQ(plan.cpus, (std::vector<CpuList>{{1}, {6}, {1}}));
  EXPECT_EQ(plan.notice, "3 ranks are bound to 2 allowed cores: some ranks share a core");
}

TEST(PlanBinding, GivesANumaNodeToConsecutiveRanks) {
  FakeSysfs sysfs;
  sysfs.add_node(0, "0-1");
  sysfs.add_node(1, "2-3");

  const BindingPlan plan = plan_binding(Binding::kNuma, 4, {0, 1, 2, 3}, sysfs.root());

  EXPECT_EQ(plan.cpus, (std::vector<CpuList>{{0, 1}, {0, 1}, {2, 3}, {2, 3}}));
  EXPECT_EQ(plan.notice, "");
}

}  // namespace
}  // namespace gimbal
