// gimbal-topo from outside: what it prints, returns and survives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/support/command.h"

namespace gimbal::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kTimeoutMs = 5'000;  // what any file may take
const std::string kFixtures = source_file("tests/fixtures/topology/");

CommandResult topo(std::vector<std::string> arguments, std::vector<std::pair<std::string, std::string>> environment = {}) {
  arguments.insert(arguments.begin(), binary("gimbal-topo"));
  CommandOptions options;
  options.environment = std::move(environment);
  options.timeout_ms = kTimeoutMs;
  return run_command(arguments, options);
}

// A folder removed at the end.
class GimbalTopo : public testing::Test {
 protected:
  GimbalTopo() {
    std::string name = fs::temp_directory_path() / "gimbal-topo-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~GimbalTopo() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(file(name)).rdbuf();
    return text.str();
  }

  fs::path folder_;
};

// A CPU that this process may use.
int some_allowed_cpu() {
  cpu_set_t affinity;
  sched_getaffinity(0, sizeof(affinity), &affinity);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &affinity)) last = cpu;
  }
  return last;
}

TEST_F(GimbalTopo, ShowsThisMachine) {
  const CommandResult result = topo({});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(StartsWith("this machine"), HasSubstr("allowed to this process: ")));
}

TEST_F(GimbalTopo, TellsWhatAffinityAllowsApartFromWhatIsThere) {
  const std::string cpu = std::to_string(some_allowed_cpu());
  const CommandResult result = run_command({"taskset", "-c", cpu, binary("gimbal-topo")});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("allowed to this process: 1 of "), HasSubstr(" (" + cpu + "), ")));
}

// The shell may use one CPU and the file knows others: if they were bound to, the shell's mask would show or an error would.
TEST_F(GimbalTopo, AFileBindsNothing) {
  const std::string cpu = std::to_string(some_allowed_cpu());
  const std::string load = binary("gimbal-topo") + " --load " + kFixtures + "two_socket.xml";
  const CommandResult result =
      run_command({"taskset", "-c", cpu, "sh", "-c", load + " && grep Cpus_allowed_list /proc/self/status"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("16 of 16 PUs"), HasSubstr("a file binds nothing here"),
                                HasSubstr("Cpus_allowed_list:\t" + cpu + "\n")));
}

TEST_F(GimbalTopo, WhatItSavesItLoads) {
  const std::string source = kFixtures + "pcie4.xml";
  const CommandResult first = topo({"--load", source, "--save", file("saved.json")});
  EXPECT_EQ(first.status, 0) << first.err;
  const CommandResult second = topo({"--file", file("saved.json")});
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_EQ(second.out.substr(second.out.find(": pcie4")), first.out.substr(first.out.find(": pcie4")));
}

TEST_F(GimbalTopo, DrawsIntoAFile) {
  const CommandResult result = topo({"--xml", kFixtures + "nvswitch8.xml", "--svg", file("machine.svg")});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(read("machine.svg"), StartsWith("<svg "));
}

TEST_F(GimbalTopo, MakesAPngOrSaysWhatIsMissing) {
  const CommandResult result = topo({"--load", kFixtures + "hybrid.xml", "--png", file("machine.png")});
  if (result.status == 0) {
    EXPECT_THAT(read("machine.png"), StartsWith("\x89PNG"));
  } else {
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("librsvg2-bin"));
  }
  const CommandResult without =
      topo({"--load", kFixtures + "hybrid.xml", "--png", file("machine.png")}, {{"PATH", "/nonexistent"}});
  EXPECT_EQ(without.status, 1);
  EXPECT_THAT(without.err, HasSubstr("librsvg2-bin"));
}

TEST_F(GimbalTopo, HostileFilesAreOneLineWithThePathInTimeAndMemory) {
  std::ofstream(file("empty.xml"));
  std::ofstream(file("truncated.xml")) << "<topology version=\"2.0\"><object type=\"Machine\" os_ind";
  std::mt19937_64 noise(7);
  std::ofstream random(file("random.xml"), std::ios::binary);
  for (int i = 0; i < 131'072; ++i) {
    const uint64_t word = noise();
    random.write(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  random.close();
  std::string bomb = "<system>";
  for (int i = 0; i < 2'000'000; ++i) bomb += "<a/>";
  std::ofstream(file("bomb.xml")) << bomb;
  fs::copy_file(source_file("tests/fuzz/corpus/topology_file/no_complete_cpuset.xml"), file("no_cpuset.xml"));
  std::vector<std::string> paths = {"/", "/dev/null", "/nonexistent/file"};
  for (const char* name : {"empty.xml", "truncated.xml", "random.xml", "bomb.xml", "no_cpuset.xml"})
    paths.push_back(file(name));
  for (const char* libxml : {"0", "1"}) {
    for (const std::string& path : paths) {
      const CommandResult result = topo({"--load", path}, {{"HWLOC_LIBXML", libxml}});
      // A later hwloc may read the last one.
      if (result.status == 0 && path == file("no_cpuset.xml")) continue;
      EXPECT_EQ(result.status, 1) << path << ": " << result.err;
      EXPECT_THAT(result.err, StartsWith("gimbal-topo: " + path + ": "));
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      EXPECT_EQ(result.out, "");
    }
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 200 * 1024) << "KiB, of the largest child";
#endif
}

TEST_F(GimbalTopo, RefusesUnknownOptions) {
  const CommandResult result = topo({"--lod", "x"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--lod"));
  EXPECT_EQ(topo({"check", "--ranks", "0"}).status, 2);
}

TEST_F(GimbalTopo, SaysWhereItCannotWrite) {
  const CommandResult result = topo({"--load", kFixtures + "no_io.xml", "--save", "/nonexistent/file"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("/nonexistent/file"));
  const CommandResult full = run_command({"sh", "-c", binary("gimbal-topo") + " > /dev/full"});
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.err, HasSubstr("standard output"));
}

TEST_F(GimbalTopo, CheckReturnsTheWorstOfItsLines) {
  const CommandResult slow = topo({"check", "--ranks", "100000"}, {{"GIMBAL_TIMEOUT", "1s"}});
  EXPECT_THAT(slow.out, AllOf(HasSubstr("slow   CPUs"), HasSubstr("slow   time-out"), HasSubstr("remedy: ")));
  EXPECT_GE(slow.status, 1);
  const CommandResult fails = topo({"check"}, {{"GIMBAL_TIMEOUT", "never"}});
  EXPECT_EQ(fails.status, 2);
  EXPECT_THAT(fails.out, HasSubstr("FAILS  settings       GIMBAL_TIMEOUT: "));
  const CommandResult files = run_command({"sh", "-c", "ulimit -n 32; exec " + binary("gimbal-topo") + " check"});
  EXPECT_EQ(files.status, 2);
  EXPECT_THAT(files.out, HasSubstr("FAILS  open files     32 at most"));
}

TEST_F(GimbalTopo, ExplainsTheChoiceOnThisMachineAndOnOthers) {
  const CommandResult here = topo({"explain", "--bytes", "8..1M"}, {{"GIMBAL_TUNE_CACHE", "off"}});
  EXPECT_EQ(here.status, 0) << here.err;
  EXPECT_THAT(here.out, AllOf(StartsWith("all_reduce of float over "), HasSubstr("this machine"), HasSubstr("direct"),
                              HasSubstr("Why, where the choice changes:"), HasSubstr("; predicted ")));
  const CommandResult cluster =
      topo({"explain", "--ranks", "8", "--nodes", "2", "--load", kFixtures + "two_socket.xml", "--json"});
  EXPECT_EQ(cluster.status, 0) << cluster.err;
  const nlohmann::json report = nlohmann::json::parse(cluster.out);
  EXPECT_EQ(report["nodes"], 2);
  EXPECT_EQ(report["sizes"].size(), 28U);
  for (const nlohmann::json& size : report["sizes"]) {
    EXPECT_NE(size["algorithm"], "direct");
    EXPECT_GT(size["predicted"]["time_us"], 0);
    EXPECT_GT(size["runner_up"]["time_us"], 0);
    EXPECT_FALSE(size["why"].get<std::string>().empty());
  }
}

TEST_F(GimbalTopo, ExplainTellsWhatIsForced) {
  const CommandResult result = topo({"explain", "--ranks", "4", "--bytes", "64K"}, {{"GIMBAL_ALGORITHM", "all_reduce:ring"}});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("ring (forced)"));
  const CommandResult impossible =
      topo({"explain", "--ranks", "4", "--nodes", "2", "--bytes", "64K"}, {{"GIMBAL_ALGORITHM", "all_reduce:direct"}});
  EXPECT_EQ(impossible.status, 1);
  EXPECT_THAT(impossible.err, HasSubstr("is for the ranks of one node"));
}

TEST_F(GimbalTopo, ExplainAndTuneRefuseNonsenseInOneSentenceThatNamesIt) {
  const std::vector<std::vector<std::string>> nonsense = {{"explain", "--collective", "all_reduces"},
                                                          {"explain", "--ranks", "1"},
                                                          {"explain", "--ranks", "12abc"},
                                                          {"explain", "--ranks", "-1"},
                                                          {"explain", "--nodes", "0"},
                                                          {"explain", "--bytes", "0"},
                                                          {"explain", "--bytes", "1M..8"},
                                                          {"explain", "--bytes", "x"},
                                                          {"explain", "--bytes", "99999999999999999999"},
                                                          {"explain", "--datatype", "floats"},
                                                          {"tune", "--ranks", "1"},
                                                          {"tune", "--ranks", "2,,4"},
                                                          {"tune", "--ranks", "0x2"},
                                                          {"tune", "--collective", "send"}};
  for (const std::vector<std::string>& arguments : nonsense) {
    const CommandResult result = topo(arguments);
    EXPECT_NE(result.status, 0) << arguments[1] << " " << arguments[2];
    EXPECT_THAT(result.err, AllOf(StartsWith("gimbal-topo: "), HasSubstr(arguments[1]))) << arguments[2];
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(GimbalTopo, WhatTuneHasMeasuredIsUsed) {
  const std::vector<std::pair<std::string, std::string>> environment = {{"GIMBAL_TUNE_CACHE", file("tune.json")}};
  CommandOptions options;
  options.environment = environment;
  const CommandResult tuned = run_command({binary("gimbal-topo"), "tune", "--ranks", "2", "--collective", "gather"}, options);
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_THAT(tuned.out, AllOf(HasSubstr("2 ranks, gather of 8 B: "), HasSubstr("2 ranks: kept in " + file("tune.json"))));
  const CommandResult explained =
      topo({"explain", "--ranks", "2", "--collective", "gather", "--bytes", "64K", "--json"}, environment);
  ASSERT_EQ(explained.status, 0) << explained.err;
  EXPECT_EQ(nlohmann::json::parse(explained.out)["sizes"][0]["predicted"]["measured"], true) << explained.out;
}

}  // namespace
}  // namespace gimbal::test
