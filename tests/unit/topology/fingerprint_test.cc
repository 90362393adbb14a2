#include "topology/fingerprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace gimbal {
namespace {

namespace fs = std::filesystem;

// A made-up machine's files, removed at the end.
class Fingerprint : public testing::Test {
 protected:
  Fingerprint() {
    std::string name = fs::temp_directory_path() / "gimbal-root-XXXXXX";
    root_ = mkdtemp(name.data());
    write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU\n");
    write("sys/devices/system/cpu/possible", "0-7");
    write("sys/devices/system/cpu/cpu0/cache/index3/size", "32768K");
    write("sys/devices/system/node/node0/distance", "10 20");
    write("sys/bus/pci/devices/0000:01:00.0/class", "0x020000");
    write("sys/bus/pci/devices/0000:01:00.0/device", "0x1017");
    write("sys/bus/pci/devices/0000:02:00.0/class", "0x010802");
  }
  ~Fingerprint() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  [[nodiscard]] uint64_t now() const { return machine_fingerprint(root_); }

  fs::path root_;
};

TEST_F(Fingerprint, IsEqualForEqualMachines) {
  const uint64_t before = now();
  EXPECT_EQ(now(), before);
  write("sys/bus/pci/devices/0000:02:00.0/device", "0xa80a");  // a disk says nothing of collectives
  EXPECT_EQ(now(), before);
}

TEST_F(Fingerprint, ChangesWithEveryPartThatCostsDependOn) {
  std::vector<uint64_t> seen = {now()};
  const std::vector<std::pair<std::string, std::string>> changes = {{"proc/cpuinfo", "model name\t: Slow CPU"},
                                                                    {"sys/devices/system/cpu/possible", "0-15"},
                                                                    {"sys/devices/system/cpu/cpu0/cache/index3/size", "16384K"},
                                                                    {"sys/devices/system/node/node0/distance", "10 32"},
                                                                    {"sys/bus/pci/devices/0000:01:00.0/device", "0x101b"},
                                                                    {"sys/bus/pci/devices/0000:03:00.0/class", "0x030200"}};
  for (const auto& [path, text] : changes) {
    write(path, text);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), now()), 0) << path;
    seen.push_back(now());
  }
}

TEST(GraphFingerprint, TellsGraphsApart) {
  TopologyGraph graph;
  add_node(graph, {});
  const uint64_t before = graph_fingerprint(graph);
  EXPECT_EQ(graph_fingerprint(graph), before);
  add_node(graph, {.kind = NodeKind::kPackage, .parent = 0});
  EXPECT_NE(graph_fingerprint(graph), before);
}

}  // namespace
}  // namespace gimbal
