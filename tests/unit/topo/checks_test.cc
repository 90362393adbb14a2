// gimbal-topo check: each line is fine on a sound machine, and finds the fault that is planted for it.
#include "tools/gimbal_topo/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/scoped_environment.h"

namespace gimbal::test {
namespace {

using ::testing::HasSubstr;

// A GPU and an InfiniBand NIC, 4 PUs for 4 ranks.
CheckFacts sound_machine() {
  CheckFacts facts;
  add_node(facts.graph, {});
  for (int64_t pu = 0; pu < 4; ++pu) add_node(facts.graph, {.kind = NodeKind::kPu, .parent = 0, .os_index = pu});
  add_node(facts.graph, {.kind = NodeKind::kGpu, .parent = 0});
  add_node(facts.graph, {.kind = NodeKind::kNic, .parent = 0});
  facts.graph.nodes.back().ports = {{.name = "mlx5_0", .state = PortState::kUp, .gid = "fe80::1"}};
  facts.ranks = 4;
  facts.huge_pages = "madvise";
  facts.has_gpudirect_module = true;
  facts.verbs_ports = {"mlx5_0:1 (InfiniBand, 400 Gb/s), no dmabuf"};
  facts.addresses = {{"eth0", "10.0.0.1"}, {"eth1", "10.0.0.2"}};
  return facts;
}

TEST(Checks, ASoundMachineIsFineThroughout) {
  const std::vector<CheckLine> lines = judge(sound_machine());
  for (const CheckLine& line : lines) EXPECT_EQ(line.state, CheckState::kFine) << line.name << ": " << line.sentence;
  EXPECT_EQ(worst_of(lines), CheckState::kFine);
}

struct Fault {
  const char* line;
  CheckState state;
  const char* sentence;
  void (*plant)(CheckFacts& facts);
};

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsFoundByItsLineAndNoOther) {
  CheckFacts facts = sound_machine();
  GetParam().plant(facts);
  const std::vector<CheckLine> lines = judge(facts);
  EXPECT_EQ(worst_of(lines), GetParam().state);
  for (const CheckLine& line : lines) {
    if (line.name != GetParam().line) {
      EXPECT_EQ(line.state, CheckState::kFine) << line.name << ": " << line.sentence;
      continue;
    }
    EXPECT_EQ(line.state, GetParam().state);
    EXPECT_THAT(line.sentence, HasSubstr(GetParam().sentence));
    EXPECT_FALSE(line.remedy.empty());
    EXPECT_THAT(check_report(lines), HasSubstr("remedy: " + line.remedy));
  }
}

constexpr Fault kFaults[] = {
    {"CPUs", CheckState::kSlow, "3 PUs allowed for 4 ranks", [](CheckFacts& facts) { facts.graph.nodes[1].allowed = false; }},
    {"CPU quota", CheckState::kSlow, "1.5 CPUs for 4 ranks", [](CheckFacts& facts) { facts.graph.quota_cpus = 1.5; }},
    {"locked memory", CheckState::kFails, "8 MiB", [](CheckFacts& facts) { facts.locked_memory_limit = 8 << 20; }},
    {"open files", CheckState::kFails, "64 at most, 73 wanted", [](CheckFacts& facts) { facts.descriptor_limit = 64; }},
    {"shared memory", CheckState::kFails, "not permitted",
     [](CheckFacts& facts) { facts.shared_memory_error = "not permitted"; }},
    {"huge pages", CheckState::kSlow, "off", [](CheckFacts& facts) { facts.huge_pages = "never"; }},
    {"InfiniBand", CheckState::kSlow, "down: mlx5_0 of 1 port",
     [](CheckFacts& facts) { facts.graph.nodes[6].ports[0].state = PortState::kDown; }},
    {"verbs", CheckState::kSlow, "not between nodes: no libibverbs",
     [](CheckFacts& facts) {
       facts.verbs_ports.clear();
       facts.verbs_error = "no libibverbs";
     }},
    {"GPUDirect", CheckState::kSlow, "nvidia_peermem is not loaded",
     [](CheckFacts& facts) { facts.has_gpudirect_module = false; }},
    {"addresses", CheckState::kFails, "eth0 and eth1 share 10.0.0.1",
     [](CheckFacts& facts) { facts.addresses[1].address = facts.addresses[0].address; }},
    {"settings", CheckState::kFails, "GIMBAL_TIMEOUT: bad",
     [](CheckFacts& facts) { facts.environment_errors = {"GIMBAL_TIMEOUT: bad"}; }},
    {"settings", CheckState::kSlow, "GIMBAL_TIMOUT is not known",
     [](CheckFacts& facts) { facts.unknown_variables = {"GIMBAL_TIMOUT is not known"}; }},
    {"time-out", CheckState::kSlow, "0.5 s for an operation", [](CheckFacts& facts) { facts.timeout_ms = 500; }},
    {"hardware", CheckState::kSlow, "8 GT/s x4 of 16 GT/s x16",
     [](CheckFacts& facts) {
       facts.graph.links.push_back({.a = 5, .b = 0, .speed_gts = 8, .width = 4, .most_speed_gts = 16, .most_width = 16});
     }},
};

INSTANTIATE_TEST_SUITE_P(Checks, PlantedFault, testing::ValuesIn(kFaults));

TEST(GatherFacts, ReadsTheMachineBelowItsRoot) {
  std::string name = std::filesystem::temp_directory_path() / "gimbal-root-XXXXXX";
  const std::filesystem::path root = mkdtemp(name.data());
  std::filesystem::create_directories(root / "sys/kernel/mm/transparent_hugepage");
  std::filesystem::create_directories(root / "sys/module/nvidia_peermem");
  std::ofstream(root / "sys/kernel/mm/transparent_hugepage/enabled") << "always madvise [never]\n";
  const CheckFacts facts = gather_facts(sound_machine().graph, 0, root);
  std::filesystem::remove_all(root);
  EXPECT_EQ(facts.huge_pages, "never");
  EXPECT_TRUE(facts.has_gpudirect_module);
  EXPECT_EQ(facts.ranks, 4) << "one per allowed PU";
  EXPECT_EQ(facts.shared_memory_error, "");
}

TEST(GatherFacts, ReadsTheSettings) {
  const ScopedEnvironment timeout("GIMBAL_TIMEOUT", "2s");
  const ScopedEnvironment refused("GIMBAL_WARN_AFTER", "soon");
  const ScopedEnvironment misspelt("GIMBAL_TIMOUT", "2s");
  const CheckFacts facts = gather_facts(sound_machine().graph, 7, "/nonexistent");
  EXPECT_EQ(facts.ranks, 7);
  EXPECT_EQ(facts.timeout_ms, 2000);
  EXPECT_THAT(facts.environment_errors, ::testing::ElementsAre(HasSubstr("GIMBAL_WARN_AFTER")));
  EXPECT_THAT(facts.unknown_variables, ::testing::ElementsAre(HasSubstr("did you mean GIMBAL_TIMEOUT?")));
}

}  // namespace
}  // namespace gimbal::test
