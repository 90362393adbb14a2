// The readers of files: what they refuse, and that nothing takes the caller along.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "tests/unit/topology/machines.h"
#include "tests/unit/topology/reference_files.h"
#include "topology/graph_json.h"
#include "topology/isolated.h"
#include "topology/load.h"
#include "topology/nccl_xml.h"

namespace gimbal::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    const int fd = mkstemp(path_.data());
    if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
    close(fd);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::remove(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "gimbal-topology-XXXXXX";
};

std::string load_error(const std::string& path) {
  const Result<TopologyGraph> graph = load_topology_file(path);
  return graph.ok() ? "" : graph.status().message();
}

TEST(Json, EveryFixtureSurvivesWritingAndReading) {
  for (const auto& entry : std::filesystem::directory_iterator(fixture(""))) {
    if (entry.path().extension() != ".xml") continue;
    const Result<TopologyGraph> graph = load_topology_file(entry.path());
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const std::string json = graph_to_json(*graph);
    const Result<TopologyGraph> again = graph_from_json(json);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(graph_to_json(*again), json) << entry.path();
  }
}

TEST(Json, NamesTheFieldThatItRefuses) {
  const auto error = [](const std::string& text) { return graph_from_json(text).status().message(); };
  EXPECT_THAT(error("{"), HasSubstr("not well-formed JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("an object"));
  EXPECT_THAT(error(R"({"gimbal_topology":2})"), HasSubstr("is 2; this version reads 1"));
  EXPECT_THAT(error(R"({"gimbal_topology":1})"), HasSubstr("not a machine"));
  EXPECT_THAT(error(R"({"gimbal_topology":1,"nodes":[{"kind":"toaster"}]})"),
              AllOf(HasSubstr("nodes/0/kind"), HasSubstr("toaster")));
  EXPECT_THAT(error(R"({"gimbal_topology":1,"nodes":[{"kind":"machine"},{"kind":"gpu","parent":7}]})"),
              HasSubstr("the parent 7"));
  EXPECT_THAT(error(R"({"gimbal_topology":1,"nodes":[{"kind":"machine","bytes":-1}]})"), HasSubstr("nodes/0/bytes"));
  EXPECT_THAT(error(R"({"gimbal_topology":1,"nodes":[{"kind":"machine","os_index":1e300}]})"), HasSubstr("nodes/0/os_index"));
  EXPECT_THAT(error(R"({"gimbal_topology":1,"nodes":[{"kind":"machine","bus_id":"x"}]})"), HasSubstr("a PCI address"));
  EXPECT_THAT(error(R"({"gimbal_topology":1,"nodes":[{"kind":"machine"}],"links":[{"bandwidth_gbps":-1}]})"),
              HasSubstr("links/0/bandwidth_gbps"));
}

TEST(NcclXml, NamesTheElementThatItRefuses) {
  const auto error = [](const std::string& inside) {
    return graph_from_nccl_xml("<system version=\"1\">" + inside + "</system>").status().message();
  };
  EXPECT_THAT(error(""), HasSubstr("<system> has no <cpu>"));
  EXPECT_THAT(error("<cpu numaid=\"-2\"/>"), HasSubstr("numaid -2"));
  EXPECT_THAT(error("<cpu numaid=\"0\" affinity=\"0000zz\"/>"), HasSubstr("no hexadecimal mask"));
  EXPECT_THAT(error("<cpu numaid=\"0\" affinity=\"1" + std::string(3000, '0') + "\"/>"), HasSubstr("the most is 8191"));
  EXPECT_THAT(error("<cpu numaid=\"0\"><pci busid=\"nowhere\"/></cpu>"), HasSubstr("busid \"nowhere\""));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "<pci busid=\"0000:01:00.0\">";
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  EXPECT_THAT(error("<cpu numaid=\"0\">" + deep + "</cpu>"), HasSubstr("more than 64 deep"));
}

TEST(NcclXml, DirectLinksThatTheTwoEndsCountDifferentlyAreAContradiction) {
  const std::string text = R"(<system><cpu numaid="0">
      <pci busid="0000:01:00.0" class="0x030200"><gpu dev="0" sm="90"><nvlink target="0000:02:00.0" count="4" tclass="0x030200"/></gpu></pci>
      <pci busid="0000:02:00.0" class="0x030200"><gpu dev="1" sm="90"><nvlink target="0000:01:00.0" count="3" tclass="0x030200"/></gpu></pci>
    </cpu></system>)";
  EXPECT_THAT(graph_from_nccl_xml(text).status().message(), HasSubstr("4 and 3 links to each other"));
}

TEST(RunIsolated, ReturnsWhatTheWorkReturns) {
  EXPECT_EQ(*run_isolated([] { return Result<std::string>("text"); }, {}), "text");
  const auto failing = [] { return Result<std::string>(Status(Code::kInvalidArgument, "no such thing")); };
  EXPECT_EQ(run_isolated(failing, {}).status().message(), "no such thing");
}

TEST(RunIsolated, ACrashIsASentence) {
  const auto crash = []() -> Result<std::string> {
    raise(SIGSEGV);
    return std::string();
  };
  EXPECT_EQ(run_isolated(crash, {}).status().message(), "the reader died of it: Segmentation fault");
}

TEST(RunIsolated, WorkWithoutEndIsStopped) {
  const auto forever = []() -> Result<std::string> {
    for (;;) pause();
  };
  EXPECT_EQ(run_isolated(forever, {.time_ms = 50}).status().message(), "reading it takes longer than 50 ms");
}

TEST(RunIsolated, MemoryHasALimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator does not throw std::bad_alloc";
#endif
  const auto greedy = []() -> Result<std::string> { return std::string(size_t{1} << 30, 'x'); };
  EXPECT_EQ(run_isolated(greedy, {}).status().message(), "reading it takes too much memory");
}

TEST(LoadTopologyFile, EveryErrorBeginsWithThePath) {
  const TemporaryFile empty("");
  EXPECT_EQ(load_error(empty.path()), empty.path() + ": is empty");
  const TemporaryFile noise(
      "\x7f"
      "ELF\x01\x02");
  EXPECT_THAT(load_error(noise.path()), AllOf(StartsWith(noise.path()), HasSubstr("is neither")));
  const TemporaryFile truncated("<topology version=\"2.0\"><object type=\"Mach");
  EXPECT_THAT(load_error(truncated.path()), AllOf(StartsWith(truncated.path()), HasSubstr("not well-formed XML")));
  const TemporaryFile other("<html/>");
  EXPECT_THAT(load_error(other.path()), HasSubstr("neither <topology> (hwloc) nor <system> (NCCL)"));
  EXPECT_THAT(load_error("/nonexistent/file"), HasSubstr("/nonexistent/file: No such file"));
  EXPECT_THAT(load_error("/"), HasSubstr("/: is a directory"));
  EXPECT_THAT(load_error("/dev/null"), HasSubstr("/dev/null: is no regular file"));
}

TEST(LoadTopologyFile, ANewerVersionOfHwlocsXmlIsNamed) {
  const TemporaryFile file("<topology version=\"9.0\"/>");
  EXPECT_THAT(load_error(file.path()), HasSubstr("hwloc XML version 9.0 is too new"));
}

TEST(LoadTopologyFile, APipeWithoutAWriterDoesNotKeepItWaiting) {
  const TemporaryFile taken("");
  std::remove(taken.path().c_str());
  ASSERT_EQ(mkfifo(taken.path().c_str(), 0600), 0);
  EXPECT_THAT(load_error(taken.path()), HasSubstr("is no regular file"));
}

TEST(LoadTopologyFile, WorksBesideOtherThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a child that ThreadSanitizer's runtime forks beside other threads may wait for that runtime's own locks";
#endif
  std::vector<std::thread> threads;
  std::atomic<int> loaded = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&loaded] { loaded += load_topology_file(fixture("pcie4.xml")).ok() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loaded, 4);
}

}  // namespace
}  // namespace gimbal::test
