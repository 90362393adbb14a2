// Case C13: sizes in the environment that do not divide, do not parse or make no sense are refused by name, or work.
#include <gmock/gmock.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/command.h"
#include "tests/support/communicator.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kRanks = 3;
constexpr size_t kMaximumBytes = size_t{kSanitized ? 1 : 16} << 20;

struct Setting {
  const char* variable;
  const char* value;
};

std::vector<Setting> odd_settings() {
  std::vector<Setting> settings;
  for (const char* variable : {"GIMBAL_CHUNK_BYTES", "GIMBAL_SLOT_BYTES"}) {
    for (const char* value : {"1", "7", "123000", "131074", "1000000", "0", "-1", "4g", "99999999999999999999", "12abc", ""}) {
      settings.push_back({variable, value});
    }
  }
  return settings;
}

// All-reduces of 1 byte to 16 MiB (1 MiB under a sanitizer), every size one below a power of two: no chunk size divides it.
void expect_exact_sums(Communicator& communicator) {
  std::vector<uint8_t> input(kMaximumBytes);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<uint8_t>(i + static_cast<size_t>(communicator.rank()));
  for (size_t count = 1; count < kMaximumBytes; count = 2 * count + 1) {
    std::vector<uint8_t> output(count);
    communicator.all_reduce(input.data(), output.data(), count, GIMBAL_UINT8, GIMBAL_SUM);
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) wrong += output[i] == static_cast<uint8_t>(3 * i + 3) ? 0 : 1;
    ASSERT_EQ(wrong, 0U) << "of " << count << " bytes";
  }
}

class OddSetting : public RanksTest, public testing::WithParamInterface<std::tuple<RankKind, Setting>> {
 protected:
  void TearDown() override {
    unsetenv(std::get<Setting>(GetParam()).variable);
    RanksTest::TearDown();
  }
};

TEST_P(OddSetting, IsRefusedWithItsNameAndValueOrGivesExactSums) {
  const auto& [kind, setting] = GetParam();
  ASSERT_EQ(setenv(setting.variable, setting.value, 1), 0);
  const bool is_chunk = std::string(setting.variable) == "GIMBAL_CHUNK_BYTES";
  run_ranks(kind, kRanks, [&, setting = setting](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.algorithm = is_chunk ? "all_reduce:direct" : "all_reduce:ring";
    gimbal_comm_t probe = nullptr;
    const gimbal_status_t status = gimbal_comm_create(&config, &probe);
    if (status != GIMBAL_OK) {
      EXPECT_EQ(status, GIMBAL_INVALID_ARGUMENT);
      EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr(setting.variable), HasSubstr(setting.value)));
      return;
    }
    EXPECT_EQ(gimbal_comm_destroy(probe), GIMBAL_OK);
    const std::string rendezvous = context.rendezvous + "-second";
    config.rendezvous = rendezvous.c_str();
    Communicator communicator(config);
    expect_exact_sums(communicator);
  });
}

// What is no size at all cannot be what the user meant.
class NonsenseSetting : public OddSetting {};

TEST_P(NonsenseSetting, IsRefused) {
  const auto& [kind, setting] = GetParam();
  ASSERT_EQ(setenv(setting.variable, setting.value, 1), 0);
  run_ranks(kind, 1, [](const RankContext& context) {
    const gimbal_config_t config = rank_config(context);
    gimbal_comm_t comm = nullptr;
    EXPECT_EQ(gimbal_comm_create(&config, &comm), GIMBAL_INVALID_ARGUMENT);
  });
}

// A file that another test or rank may write beside this one's.
class MachineFiles : public RanksTest {
 protected:
  MachineFiles() {
    std::string name = std::filesystem::temp_directory_path() / "gimbal-files-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~MachineFiles() override {
    unsetenv("GIMBAL_TUNE_CACHE");
    unsetenv("GIMBAL_TOPO_FILE");
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  std::filesystem::path folder_;
};

struct Warnings {
  std::vector<std::string> lines;
  static void collect(void* context, int, const char* line) { static_cast<Warnings*>(context)->lines.emplace_back(line); }
};

// Creates a communicator that collects its log and sums once.
std::vector<std::string> warnings_of_a_sum(const RankContext& context) {
  Warnings warnings;
  gimbal_config_t config = rank_config(context);
  config.log = Warnings::collect;
  config.log_context = &warnings;
  Communicator communicator(config);
  const int32_t one = 1;
  int32_t sum = 0;
  communicator.all_reduce(&one, &sum, 1, GIMBAL_INT32, GIMBAL_SUM);
  EXPECT_EQ(sum, communicator.size());
  std::erase_if(warnings.lines, [](const std::string& line) { return line.find("tune cache") == std::string::npos; });
  return warnings.lines;
}

TEST_F(MachineFiles, ATopologyThatCannotBeReadIsAnErrorThatNamesVariableAndPath) {
  for (const std::string& path : {std::string("/no/such/file"), std::string("/"), write("broken.xml", "<topology")}) {
    setenv("GIMBAL_TOPO_FILE", path.c_str(), 1);
    run_ranks(RankKind::kThreads, 1, [&](const RankContext& context) {
      const gimbal_config_t config = rank_config(context);
      gimbal_comm_t comm = nullptr;
      EXPECT_EQ(gimbal_comm_create(&config, &comm), GIMBAL_INVALID_ARGUMENT);
      EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("GIMBAL_TOPO_FILE"), HasSubstr(path)));
    });
  }
}

TEST_F(MachineFiles, ATopologyFromAFileBindsNothing) {
  setenv("GIMBAL_TOPO_FILE", source_file("tests/fixtures/topology/two_socket.json").c_str(), 1);
  run_ranks(RankKind::kThreads, 2, [](const RankContext& context) {
    cpu_set_t before;
    cpu_set_t after;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    Communicator communicator(rank_config(context));
    char text[1024];
    EXPECT_EQ(gimbal_explain(communicator.get(), GIMBAL_ALL_REDUCE, 65536, GIMBAL_FLOAT32, text, sizeof(text)), GIMBAL_OK);
    ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  });
}

TEST_F(MachineFiles, ATuneCacheThatIsNoneIsOneWarningAndNoHarm) {
  for (const std::string& path : {folder_.string(), write("rubbish", "12abc"), write("other", R"({"gimbal_tune":9})")}) {
    setenv("GIMBAL_TUNE_CACHE", path.c_str(), 1);
    run_ranks(RankKind::kThreads, 2, [&](const RankContext& context) {
      const std::vector<std::string> lines = warnings_of_a_sum(context);
      ASSERT_EQ(lines.size(), context.rank == 0 ? 1U : 0U);
      for (const std::string& line : lines) EXPECT_THAT(line, HasSubstr("the tune cache is not used: " + path));
    });
  }
}

TEST_F(MachineFiles, DifferentTuneCachesAreOneWarningAndNoRankUsesAny) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ranks with different environments are processes";
#endif
  const std::string first = folder_ / "first";
  const CommandResult tuned =
      run_command({binary("gimbal-topo"), "tune", "--ranks", "2", "--collective", "gather", "--output", first});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  std::ostringstream text;
  text << std::ifstream(first).rdbuf();
  const std::string second = write("second", text.str() + "\n");
  run_ranks(RankKind::kProcesses, 3, [&](const RankContext& context) {
    setenv("GIMBAL_TUNE_CACHE", (context.rank == 1 ? second : first).c_str(), 1);
    const std::vector<std::string> lines = warnings_of_a_sum(context);
    ASSERT_EQ(lines.size(), context.rank == 0 ? 1U : 0U);
    for (const std::string& line : lines) EXPECT_THAT(line, HasSubstr("rank 0 and rank 1 have different tune caches"));
  });
}

std::string setting_test_name(const testing::TestParamInfo<std::tuple<RankKind, Setting>>& info) {
  const auto& [kind, setting] = info.param;
  std::string name = rank_kind_name(kind) + "_";
  name.append(setting.variable).append("_");
  if (*setting.value == '\0') return name + "empty";
  for (const char* c = setting.value; *c != '\0'; ++c) name += *c == '-' ? std::string("minus_") : std::string(1, *c);
  return name;
}

std::vector<Setting> nonsense_settings() {
  std::vector<Setting> settings = odd_settings();
  std::erase_if(settings, [](const Setting& setting) {
    const std::string value = setting.value;
    return value != "-1" && value != "0" && value != "99999999999999999999" && value != "12abc";
  });
  return settings;
}

INSTANTIATE_TEST_SUITE_P(Cases, OddSetting,
                         testing::Combine(testing::ValuesIn(rank_kinds()), testing::ValuesIn(odd_settings())),
                         setting_test_name);
INSTANTIATE_TEST_SUITE_P(Cases, NonsenseSetting,
                         testing::Combine(testing::ValuesIn(rank_kinds()), testing::ValuesIn(nonsense_settings())),
                         setting_test_name);

}  // namespace
}  // namespace gimbal::test
