#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "gimbal/gimbal.h"

namespace gimbal {
namespace {

Status pass_on(const Result<int>& result) {
  RETURN_IF_ERROR(result);
  return {};
}

Result<int> doubled(Result<int> result) {
  ASSIGN_OR_RETURN(const int value, std::move(result));
  return 2 * value;
}

TEST(Status, SuccessHasNoMessage) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.message(), "");
}

TEST(Status, ACopyIsIndependentOfItsOriginal) {
  Status original(Code::kTimeout, "rank 3 did not arrive");
  const Status copy = original;
  original = Status();
  EXPECT_EQ(copy.code(), Code::kTimeout);
  EXPECT_EQ(copy.message(), "rank 3 did not arrive");
}

TEST(Status, AssigningItToItselfKeepsIt) {
  Status status(Code::kRemote, "rank 1 left");
  const Status& same = status;
  status = same;
  EXPECT_EQ(status.message(), "rank 1 left");
}

TEST(Status, EveryCodeEqualsThePublicOneOfItsName) {
  EXPECT_STREQ(code_name(GIMBAL_OK), "GIMBAL_OK");
  EXPECT_STREQ(code_name(GIMBAL_INVALID_ARGUMENT), "GIMBAL_INVALID_ARGUMENT");
  EXPECT_STREQ(code_name(GIMBAL_INVALID_USAGE), "GIMBAL_INVALID_USAGE");
  EXPECT_STREQ(code_name(GIMBAL_UNSUPPORTED), "GIMBAL_UNSUPPORTED");
  EXPECT_STREQ(code_name(GIMBAL_NO_MEMORY), "GIMBAL_NO_MEMORY");
  EXPECT_STREQ(code_name(GIMBAL_SYSTEM), "GIMBAL_SYSTEM");
  EXPECT_STREQ(code_name(GIMBAL_DEVICE), "GIMBAL_DEVICE");
  EXPECT_STREQ(code_name(GIMBAL_REMOTE), "GIMBAL_REMOTE");
  EXPECT_STREQ(code_name(GIMBAL_TIMEOUT), "GIMBAL_TIMEOUT");
  EXPECT_STREQ(code_name(GIMBAL_MISMATCH), "GIMBAL_MISMATCH");
  EXPECT_STREQ(code_name(GIMBAL_ABORTED), "GIMBAL_ABORTED");
  EXPECT_STREQ(code_name(GIMBAL_INTERNAL), "GIMBAL_INTERNAL");
}

TEST(Status, AValueThatIsNoCodeIsUnknown) {
  EXPECT_STREQ(code_name(99), "GIMBAL_UNKNOWN");
  EXPECT_STREQ(code_name(-1), "GIMBAL_UNKNOWN");
  EXPECT_STREQ(code_name(256), "GIMBAL_UNKNOWN");  // not 0, which is what is left of it in a byte
  EXPECT_STREQ(code_name(256 + GIMBAL_TIMEOUT), "GIMBAL_UNKNOWN");
}

TEST(Status, OnlyErrorsOfACallLeaveTheCommunicatorUsable) {
  EXPECT_FALSE(loses_communicator(Code::kInvalidArgument));
  EXPECT_FALSE(loses_communicator(Code::kInvalidUsage));
  EXPECT_FALSE(loses_communicator(Code::kUnsupported));
  EXPECT_TRUE(loses_communicator(Code::kNoMemory));
  EXPECT_TRUE(loses_communicator(Code::kRemote));
  EXPECT_TRUE(loses_communicator(Code::kInternal));
}

TEST(Status, ASystemErrorSaysWhatAndWhy) {
  const Status status = system_error("open /nowhere", ENOENT);
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_EQ(status.message(), "open /nowhere: No such file or directory");
  EXPECT_EQ(system_error("map 5 bytes", ENOMEM).code(), Code::kNoMemory);
}

TEST(Result, HoldsAValueThatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result.status().ok());
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 5);
}

TEST(Result, MacrosPassAnErrorOnUnchanged) {
  const Status error(Code::kMismatch, "count 100 on rank 0, 200 on rank 1");
  EXPECT_EQ(pass_on(error).message(), error.message());
  EXPECT_EQ(doubled(error).status().message(), error.message());
  EXPECT_EQ(doubled(error).status().code(), Code::kMismatch);
}

TEST(Result, MacrosPassASuccessOn) {
  EXPECT_TRUE(pass_on(7).ok());
  EXPECT_EQ(*doubled(7), 14);
}

}  // namespace
}  // namespace gimbal
