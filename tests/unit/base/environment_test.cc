#include "base/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/support/folders.h"
#include "tests/support/scoped_environment.h"

namespace gimbal {
namespace {

using test::ScopedEnvironment;
using test::source_file;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(Environment, TheTableIsSortedAndComplete) {
  const auto table = environment_table();
  EXPECT_TRUE(std::is_sorted(table.begin(), table.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const EnvironmentVariable& variable : table) {
    EXPECT_THAT(std::string(variable.name), StartsWith("GIMBAL_"));
    EXPECT_FALSE(variable.values.empty() || variable.default_value.empty() || variable.meaning.empty()) << variable.name;
  }
}

TEST(Environment, TheDocumentInDocsIsTheOneThatTheTablePrints) {
  std::ifstream file(source_file("docs/environment.md"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), environment_document()) << "write it anew: gimbal-run --environment > docs/environment.md";
}

TEST(Environment, AnUnsetOrEmptyVariableIsTheDefault) {
  for (const std::optional<std::string>& value : {std::optional<std::string>(), std::optional<std::string>("")}) {
    const ScopedEnvironment scope("GIMBAL_SLOT_BYTES", value);
    EXPECT_EQ(read_environment("GIMBAL_SLOT_BYTES"), std::nullopt);
    EXPECT_EQ(*environment_bytes("GIMBAL_SLOT_BYTES", 32768, 1024, 16777216), 32768u);
    EXPECT_EQ(*environment_duration_ms("GIMBAL_SLOT_BYTES", 5), 5);
    EXPECT_EQ(*environment_integer("GIMBAL_SLOT_BYTES", 6, 0, 9), 6);
    EXPECT_TRUE(*environment_bool("GIMBAL_SLOT_BYTES", true));
  }
}

TEST(Environment, SizesInRangeAreTaken) {
  for (const auto& [text, bytes] : {std::pair("123000", 123000u), std::pair("131074", 131074u), std::pair("1000000", 1000000u),
                                    std::pair("1K", 1024u), std::pair("16M", 16777216u)}) {
    const ScopedEnvironment scope("GIMBAL_SLOT_BYTES", text);
    EXPECT_EQ(*environment_bytes("GIMBAL_SLOT_BYTES", 32768, 1024, 16777216), bytes);
  }
}

TEST(Environment, ABadSizeIsAnErrorThatNamesTheVariableAndTheValue) {
  for (const std::string text : {"1", "7", "0", "-1", "4g", "99999999999999999999", "12abc"}) {
    const ScopedEnvironment scope("GIMBAL_SLOT_BYTES", text);
    const Result<uint64_t> bytes = environment_bytes("GIMBAL_SLOT_BYTES", 32768, 1024, 16777216);
    ASSERT_FALSE(bytes.ok()) << text;
    EXPECT_EQ(bytes.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(bytes.status().message(), StartsWith("GIMBAL_SLOT_BYTES: "));
    EXPECT_THAT(bytes.status().message(), HasSubstr(text));
  }
}

TEST(Environment, OtherBadValuesNameTheVariableToo) {
  const ScopedEnvironment scope("GIMBAL_TIMEOUT", "soon");
  EXPECT_THAT(environment_duration_ms("GIMBAL_TIMEOUT", 1).status().message(), StartsWith("GIMBAL_TIMEOUT: \"soon\""));
  EXPECT_THAT(environment_integer("GIMBAL_TIMEOUT", 1, 0, 2).status().message(), StartsWith("GIMBAL_TIMEOUT: \"soon\""));
  EXPECT_THAT(environment_bool("GIMBAL_TIMEOUT", true).status().message(), StartsWith("GIMBAL_TIMEOUT: \"soon\""));
}

TEST(Environment, AMisspeltNameIsReportedWithTheNearestKnownOne) {
  const ScopedEnvironment scope("GIMBAL_TIMOUT", "5s");
  EXPECT_THAT(unknown_environment_variables(),
              Contains("environment variable GIMBAL_TIMOUT is not known and has no effect; did you "
                       "mean GIMBAL_TIMEOUT?"));
}

TEST(Environment, AnUnknownNameThatIsLikeNoneIsReportedWithoutAGuess) {
  const ScopedEnvironment scope("GIMBAL_WHATEVER_THIS_MAY_BE", "1");
  EXPECT_THAT(unknown_environment_variables(),
              Contains("environment variable GIMBAL_WHATEVER_THIS_MAY_BE is not known and has no effect"));
}

TEST(Environment, KnownNamesAreNotReported) {
  const ScopedEnvironment known("GIMBAL_LOG", "debug");
  const ScopedEnvironment foreign("GIMBALISH", "1");
  EXPECT_THAT(unknown_environment_variables(), IsEmpty());
}

}  // namespace
}  // namespace gimbal
