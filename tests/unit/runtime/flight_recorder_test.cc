#include "runtime/flight_recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

namespace gimbal::test {
namespace {

class FlightRecorderTest : public testing::Test {
 protected:
  FlightRecorderTest() : path_(std::filesystem::path(testing::TempDir()) / ("gimbal-recorder-" + std::to_string(getpid()))) {}
  ~FlightRecorderTest() override { std::filesystem::remove(path_); }

  static Signature signature(uint32_t sequence) {
    Call call;
    call.collective = Collective::kAllReduce;
    call.dtype = DType::kFloat32;
    call.count = 10 + sequence;
    return make_signature(call, sequence);
  }

  static FlightRecorder::Origin origin(const std::string& name, const Status& status) {
    return {.communicator = name, .rank = 1, .size = 4, .host = "host", .clock = {.offset_ns = -5}, .status = status};
  }

  nlohmann::json written(const std::string& name = "world", const Status& status = {}) {
    EXPECT_TRUE(recorder_->write_json(path_.string(), origin(name, status)).ok());
    std::ifstream file(path_);
    return nlohmann::json::parse(file);
  }

  const std::filesystem::path path_;
  const std::unique_ptr<FlightRecorder> recorder_ = std::make_unique<FlightRecorder>();
};

TEST_F(FlightRecorderTest, WritesWhoAndNothingElseBeforeTheFirstOperation) {
  const nlohmann::json report = written();
  EXPECT_EQ(report["communicator"], "world");
  EXPECT_EQ(report["rank"], 1);
  EXPECT_EQ(report["size"], 4);
  EXPECT_EQ(report["pid"], getpid());
  EXPECT_EQ(report["status"], "GIMBAL_OK");
  EXPECT_TRUE(report["operations"].empty());
}

TEST_F(FlightRecorderTest, TellsWhatEndedHowAndWhatIsUnderWay) {
  recorder_->end(recorder_->begin(signature(1)), Code::kOk);
  recorder_->end(recorder_->begin(signature(2)), Code::kTimeout);
  recorder_->begin(signature(3));
  const nlohmann::json operations = written()["operations"];
  ASSERT_EQ(operations.size(), 3U);
  EXPECT_EQ(operations[0]["state"], "GIMBAL_OK");
  EXPECT_EQ(operations[0]["operation"], "all_reduce #1 (count 11, float, sum)");
  EXPECT_GE(operations[0]["end_ns"].get<int64_t>(), operations[0]["begin_ns"].get<int64_t>());
  EXPECT_EQ(operations[1]["state"], "GIMBAL_TIMEOUT");
  EXPECT_EQ(operations[2]["state"], "under way");
  EXPECT_EQ(operations[2]["sequence"], 3);
}

TEST_F(FlightRecorderTest, KeepsTheLast256OldestFirst) {
  for (uint32_t sequence = 1; sequence <= 1000; ++sequence) recorder_->end(recorder_->begin(signature(sequence)), Code::kOk);
  const nlohmann::json operations = written()["operations"];
  ASSERT_EQ(operations.size(), 256U);
  for (size_t i = 0; i < operations.size(); ++i) EXPECT_EQ(operations[i]["sequence"], 745 + i);
}

TEST_F(FlightRecorderTest, BytesThatAreNoUtf8BecomeTheReplacementCharacter) {
  EXPECT_EQ(written("r\xE9sum\xC3\xA9 \xE2\x82\xAC")["communicator"], "r\uFFFDsum\u00E9 \u20AC");
  EXPECT_EQ(written("\xC0\x80 \xED\xA0\x80")["communicator"], "\uFFFD\uFFFD \uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(written("\xF0\x9F\x98\x80\xF0\x9F\x98")["communicator"], "\U0001F600\uFFFD\uFFFD\uFFFD");
}

TEST_F(FlightRecorderTest, TextOfUsersIsQuoted) {
  const nlohmann::json report = written("a \"name\" with \\ and\nnewline", Status(Code::kRemote, "\"quoted\"\t\x01"));
  EXPECT_EQ(report["communicator"], "a \"name\" with \\ andnewline");
  EXPECT_EQ(report["error"], "\"quoted\"");
  EXPECT_EQ(report["status"], "GIMBAL_REMOTE");
}

// A started message may wait through any number of collectives.
TEST_F(FlightRecorderTest, EndOfAnOperationThatWasOverwrittenChangesNothing) {
  const uint64_t message = recorder_->begin(signature(0));
  for (uint32_t sequence = 1; sequence <= FlightRecorder::kEntries; ++sequence) recorder_->begin(signature(sequence));
  recorder_->end(message, Code::kOk);
  const nlohmann::json report = written();
  for (const nlohmann::json& operation : report["operations"]) EXPECT_EQ(operation["state"], "under way") << operation;
}

TEST_F(FlightRecorderTest, ForgetsOnDemand) {
  recorder_->end(recorder_->begin(signature(1)), Code::kOk);
  recorder_->clear();
  EXPECT_TRUE(written()["operations"].empty());
  recorder_->end(recorder_->begin(signature(7)), Code::kOk);
  EXPECT_EQ(written()["operations"].size(), 1U);
}

TEST_F(FlightRecorderTest, FileThatCannotBeWrittenIsAnErrorWithItsPath) {
  const Status status = recorder_->write_json("/no/such/folder/report.json", {});
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_NE(status.message().find("/no/such/folder/report.json"), std::string::npos);
}

}  // namespace
}  // namespace gimbal::test
