// gimbal-trace: dumps of good and bad origin, the first divergence of each kind, and the time line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/gimbal_trace/divergence.h"
#include "tools/gimbal_trace/timeline.h"

namespace gimbal::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json call(uint64_t sequence, uint64_t count = 10, const std::string& collective = "all_reduce",
          const std::string& state = "GIMBAL_OK") {
  json operation = {{"sequence", sequence},
                    {"operation", collective + " #" + std::to_string(sequence) + " (count " + std::to_string(count) + ")"},
                    {"collective", collective},
                    {"count", count},
                    {"dtype", "float"},
                    {"op", "sum"},
                    {"root", -1},
                    {"begin_ns", 1'000 * sequence},
                    {"state", state}};
  if (state == "GIMBAL_OK") operation["end_ns"] = 1'000 * sequence + 500;
  return operation;
}

json dump_of(Rank rank, const std::vector<json>& operations, Rank size = 3) {
  return {{"format", "gimbal-flight-recorder-1"},
          {"communicator", "world"},
          {"rank", rank},
          {"size", size},
          {"host", "a"},
          {"pid", 70 + rank},
          {"clock", {{"offset_ns", 0}, {"uncertainty_ns", 0}}},
          {"status", "GIMBAL_OK"},
          {"error", ""},
          {"operations", operations}};
}

std::vector<Dump> parsed(const std::vector<json>& documents) {
  std::vector<Dump> dumps;
  for (const json& document : documents) {
    Result<Dump> dump = parse_dump(document.dump());
    if (!dump.ok()) throw std::runtime_error(dump.status().message());
    dumps.push_back(std::move(dump).value());
  }
  return dumps;
}

TEST(TraceDump, RefusesWhatIsNoDumpAndSaysWhy) {
  json wrong_rank = dump_of(0, {});
  wrong_rank["rank"] = 3;
  json no_clock = dump_of(0, {});
  no_clock.erase("clock");
  json bad_operation = dump_of(0, {call(1)});
  bad_operation["operations"][0]["count"] = -1;
  json huge_time = dump_of(0, {call(1)});
  huge_time["operations"][0]["begin_ns"] = INT64_MAX;
  const std::pair<std::string, std::string> cases[] = {
      {"", "not a whole JSON object"},
      {dump_of(0, {call(1)}).dump().substr(0, 300), "not a whole JSON object"},
      {std::string(100'000, '['), "not a whole JSON object"},
      {R"({"format": "something"})", "\"format\" is not"},
      {wrong_rank.dump(), "\"rank\" is outside 0 to 2"},
      {no_clock.dump(), "\"clock\" is missing"},
      {bad_operation.dump(), "\"count\" is outside"},
      {huge_time.dump(), "\"begin_ns\" is outside"},
  };
  for (const auto& [text, reason] : cases) {
    const Result<Dump> dump = parse_dump(text);
    EXPECT_EQ(dump.status().code(), Code::kInvalidArgument) << text.substr(0, 80);
    EXPECT_THAT(dump.status().message(), HasSubstr(reason));
  }
}

TEST(TraceDump, OfTwoJobsOrOfOneRankTwiceAreRefused) {
  std::vector<Dump> twice = parsed({dump_of(1, {}), dump_of(1, {})});
  EXPECT_THAT(check_dumps(twice).message(), HasSubstr("rank 1 is in two files"));
  std::vector<Dump> two_jobs = parsed({dump_of(0, {}, 3), dump_of(1, {}, 2)});
  EXPECT_THAT(check_dumps(two_jobs).message(), HasSubstr("two communicators"));
}

TEST(TraceDivergence, IsNoneWhenAllDidTheSame) {
  const std::vector<Dump> dumps =
      parsed({dump_of(0, {call(1), call(2)}), dump_of(1, {call(1), call(2)}), dump_of(2, {call(1), call(2)})});
  EXPECT_FALSE(find_divergence(dumps).has_value());
  EXPECT_THAT(trace_report(dumps), HasSubstr("no divergence"));
}

TEST(TraceDivergence, OfCountsNamesBothAndWhoCalledThem) {
  const auto dumps = parsed({dump_of(0, {call(1), call(2, 10, "all_reduce", "GIMBAL_MISMATCH")}),
                             dump_of(1, {call(1), call(2, 20, "all_reduce", "GIMBAL_MISMATCH")}),
                             dump_of(2, {call(1), call(2, 10, "all_reduce", "GIMBAL_MISMATCH")})});
  const std::optional<Divergence> found = find_divergence(dumps);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->kind, Divergence::Kind::kMismatch);
  EXPECT_EQ(found->sequence, 2u);
  EXPECT_EQ(found->what, "called with count 10 and 20");
  ASSERT_EQ(found->groups.size(), 2u);
  EXPECT_THAT(found->groups[0].ranks, ElementsAre(0, 2));
  EXPECT_THAT(found->groups[1].ranks, ElementsAre(1));
}

TEST(TraceDivergence, OfOrderIsToldFromOtherMismatches) {
  const auto dumps = parsed(
      {dump_of(0, {call(1), call(2, 10, "broadcast"), call(3)}), dump_of(1, {call(1), call(2), call(3, 10, "broadcast")})});
  EXPECT_EQ(find_divergence(dumps)->what, "called in another order: collective broadcast and all_reduce");
}

TEST(TraceDivergence, NamesWhoDidNotCallAndWhatItDidLast) {
  const auto dumps = parsed({dump_of(0, {call(1), call(2, 10, "all_reduce", "under way")}), dump_of(2, {call(1)})});
  const std::optional<Divergence> found = find_divergence(dumps);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->kind, Divergence::Kind::kAbsent);
  EXPECT_EQ(found->sequence, 2u);
  EXPECT_EQ(found->groups[1].did, "did not call it; its last is all_reduce #1 (count 10), GIMBAL_OK");
  EXPECT_THAT(trace_report(dumps), HasSubstr("no dump of rank 1\n"));
}

TEST(TraceDivergence, IsNotSeenInWhatARecorderHasForgotten) {
  EXPECT_FALSE(find_divergence(parsed({dump_of(0, {call(1), call(2)}), dump_of(1, {call(2)})})).has_value());
}

TEST(TraceDivergence, IsAnOperationThatDidNotEndEverywhere) {
  const auto dumps = parsed({dump_of(0, {call(1)}), dump_of(1, {call(1, 10, "all_reduce", "GIMBAL_TIMEOUT")})});
  EXPECT_EQ(find_divergence(dumps)->what, "ended on some ranks only");
  const json report = json::parse(trace_json(dumps));
  EXPECT_EQ(report["divergence"]["kind"], "unended");
  EXPECT_EQ(report["missing"], json({2}));
}

TEST(TraceTimeline, PutsAllRanksOnRankZerosClock) {
  json other = dump_of(1, {call(1), call(2, 10, "all_reduce", "under way")});
  other["clock"]["offset_ns"] = 5'000'000;
  const json document = json::parse(trace_timeline(parsed({dump_of(0, {call(1)}), other})));
  std::map<std::string, json> by_phase_and_rank;
  for (const json& event : document["traceEvents"]) {
    by_phase_and_rank[event["ph"].get<std::string>() + std::to_string(event["pid"].get<int>())] = event;
  }
  EXPECT_EQ(by_phase_and_rank["M1"]["args"]["name"], "rank 1 (pid 71 on host a)");
  EXPECT_EQ(by_phase_and_rank["X0"]["ts"], 0.0);
  EXPECT_EQ(by_phase_and_rank["X0"]["dur"], 0.5);
  EXPECT_EQ(by_phase_and_rank["X1"]["ts"], 5'000.0);
  EXPECT_EQ(by_phase_and_rank["B1"]["ts"], 5'001.0) << "begun, and never ended";
}

}  // namespace
}  // namespace gimbal::test
