// Case C13: sizes in the environment that do not divide, do not parse or make no sense are refused by name, or work.
#include <gmock/gmock.h>

#include <cstdlib>

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
