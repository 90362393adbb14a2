#include "base/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gimbal {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kKiB = 1024;

TEST(ParseBytes, AcceptsPlainNumbers) {
  EXPECT_EQ(*parse_bytes("0"), 0u);
  EXPECT_EQ(*parse_bytes("1"), 1u);
  EXPECT_EQ(*parse_bytes("7"), 7u);
  EXPECT_EQ(*parse_bytes("123000"), 123000u);
  EXPECT_EQ(*parse_bytes("131074"), 131074u);
  EXPECT_EQ(*parse_bytes("1000000"), 1000000u);
}

TEST(ParseBytes, AcceptsBinaryUnitsInEitherCase) {
  EXPECT_EQ(*parse_bytes("4g"), 4 * kKiB * kKiB * kKiB);
  EXPECT_EQ(*parse_bytes("64K"), 64 * kKiB);
  EXPECT_EQ(*parse_bytes("64KiB"), 64 * kKiB);
  EXPECT_EQ(*parse_bytes("64kb"), 64 * kKiB);
  EXPECT_EQ(*parse_bytes("2T"), 2 * kKiB * kKiB * kKiB * kKiB);
  EXPECT_EQ(*parse_bytes("8B"), 8u);
}

TEST(ParseBytes, AcceptsFractions) {
  EXPECT_EQ(*parse_bytes("1.5M"), 1572864u);
  EXPECT_EQ(*parse_bytes("0.5K"), 512u);
}

TEST(ParseBytes, TheLargestSizeIsBelow8E) {
  EXPECT_EQ(*parse_bytes("9223372036854775807"), 9223372036854775807u);
  EXPECT_FALSE(parse_bytes("9223372036854775808").ok());
  EXPECT_TRUE(parse_bytes("8191P").ok());
  EXPECT_FALSE(parse_bytes("8192P").ok());
}

TEST(ParseBytes, RefusesWhatIsNoSizeAndNamesIt) {
  for (const char* text : {"-1", "99999999999999999999", "12abc", "", " 1", "1 ", "+1", "K", "1.", ".5", "1.5.2", "0x10", "1E",
                           "4gg", "1Kib2", "nan", "inf"}) {
    const Result<uint64_t> bytes = parse_bytes(text);
    ASSERT_FALSE(bytes.ok()) << text;
    EXPECT_EQ(bytes.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(bytes.status().message(), HasSubstr("\"" + std::string(text) + "\" is not a size"));
  }
}

TEST(ParseDuration, AcceptsUnitsAndTakesSecondsWithout) {
  EXPECT_EQ(*parse_duration_ms("600s"), 600'000);
  EXPECT_EQ(*parse_duration_ms("600"), 600'000);
  EXPECT_EQ(*parse_duration_ms("1.5m"), 90'000);
  EXPECT_EQ(*parse_duration_ms("250ms"), 250);
  EXPECT_EQ(*parse_duration_ms("2H"), 7'200'000);
  EXPECT_EQ(*parse_duration_ms("0"), 0);
}

TEST(ParseDuration, RefusesWhatIsNoDurationAndNamesIt) {
  for (const char* text : {"-1", "99999999999999999999", "12abc", "", "4g", "1 s", "s", "3000000000h"}) {
    const Result<int64_t> duration = parse_duration_ms(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_THAT(duration.status().message(), HasSubstr("\"" + std::string(text) + "\" is not a duration"));
  }
}

TEST(ParseInteger, AcceptsTheWholeRangeAndNothingBeside) {
  EXPECT_EQ(*parse_integer("-5", -5, 1000), -5);
  EXPECT_EQ(*parse_integer("1000", -5, 1000), 1000);
  for (const char* text : {"-6", "1001", "12abc", "", "1.0", "99999999999999999999", " 1", "abc"}) {
    const Result<int64_t> value = parse_integer(text, -5, 1000);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.status().message(), "\"" + std::string(text) + "\" is not a whole number from -5 to 1000");
  }
}

TEST(ParseBool, AcceptsTheCommonWords) {
  for (const char* text : {"1", "true", "Yes", "ON"}) EXPECT_TRUE(*parse_bool(text)) << text;
  for (const char* text : {"0", "False", "no", "off"}) EXPECT_FALSE(*parse_bool(text)) << text;
}

TEST(ParseBool, RefusesEverythingElse) {
  for (const char* text : {"", "2", "-1", "y", "truth"}) EXPECT_FALSE(parse_bool(text).ok()) << text;
}

}  // namespace
}  // namespace gimbal
