#include "base/log.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace gimbal {
namespace {

std::string written_to_standard_error(const Log& log, LogLevel level) {
  ::testing::internal::CaptureStderr();
  log.write(level, "rank 3 is late");
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, LinesCarryPrefixAndLevel) {
  Log log(LogLevel::kInfo);
  log.set_prefix("gimbal[world rank 3/8]");
  EXPECT_EQ(written_to_standard_error(log, LogLevel::kInfo), "gimbal[world rank 3/8] info: rank 3 is late\n");
}

TEST(Log, LevelsAboveTheChosenOneAreNotWritten) {
  const Log log(LogLevel::kWarning);
  EXPECT_EQ(written_to_standard_error(log, LogLevel::kInfo), "");
  EXPECT_EQ(written_to_standard_error(log, LogLevel::kWarning), "gimbal warn: rank 3 is late\n");
  EXPECT_EQ(written_to_standard_error(log, LogLevel::kError), "gimbal error: rank 3 is late\n");
}

TEST(Log, ASinkGetsEveryLevelAndStandardErrorNothing) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  const Log log([&lines](LogLevel level, const std::string& line) { lines.emplace_back(level, line); });
  EXPECT_EQ(written_to_standard_error(log, LogLevel::kDebug), "");
  const std::vector<std::pair<LogLevel, std::string>> expected = {{LogLevel::kDebug, "rank 3 is late"}};
  EXPECT_EQ(lines, expected);
}

TEST(Log, LevelNamesParse) {
  EXPECT_EQ(*parse_log_level("error"), LogLevel::kError);
  EXPECT_EQ(*parse_log_level("warn"), LogLevel::kWarning);
  EXPECT_EQ(*parse_log_level("info"), LogLevel::kInfo);
  EXPECT_EQ(*parse_log_level("debug"), LogLevel::kDebug);
}

TEST(Log, AnUnknownLevelIsNamedWithWhatIsAllowed) {
  const auto level = parse_log_level("loud");
  ASSERT_FALSE(level.ok());
  EXPECT_EQ(level.status().message(), "\"loud\" is not one of error, warn, info, debug");
}

}  // namespace
}  // namespace gimbal
