#include "gradsync/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gimbal::gradsync {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(Recorder, KeepsTheLastSteps) {
  Recorder recorder(2);
  for (uint64_t step = 0; step < 5; ++step) {
    recorder.begin_step(step);
    recorder.add(0, Activity::kStep, 1, 2);
  }
  ASSERT_THAT(recorder.spans(), SizeIs(2));
  EXPECT_EQ(recorder.spans()[0].step, 3u);
  EXPECT_EQ(recorder.spans()[1].step, 4u);
}

TEST(Recorder, OfNoStepsLooksAtNoClock) {
  Recorder recorder(0);
  recorder.begin_step(0);
  EXPECT_EQ(recorder.add_until_now(1, Activity::kReduce, recorder.now()), 0);
  EXPECT_THAT(recorder.spans(), SizeIs(0));
}

TEST(Timeline, HasARowForEachRankAndBucketAndBeginsWithTheFirstSpan) {
  const std::vector<std::vector<Span>> spans = {{{7, 0, Activity::kStep, 5000, 9000}}, {{7, 1, Activity::kGather, 4000, 4500}}};
  const auto document = nlohmann::json::parse(timeline_json(spans, std::vector<std::string>{"bucket 0: a \"b\""}));
  std::vector<nlohmann::json> drawn;
  std::vector<std::string> rows;
  for (const auto& event : document["traceEvents"]) {
    if (event["ph"] == "X") drawn.push_back(event);
    if (event["name"] == "thread_name") rows.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(rows, ElementsAre("steps", "bucket 0: a \"b\"", "steps", "bucket 0: a \"b\""));
  ASSERT_THAT(drawn, SizeIs(2));
  EXPECT_EQ(drawn[0]["pid"], 0);
  EXPECT_EQ(drawn[0]["name"], "step");
  EXPECT_EQ(drawn[0]["ts"], 1.0);
  EXPECT_EQ(drawn[0]["dur"], 4.0);
  EXPECT_EQ(drawn[0]["args"]["step"], 7);
  EXPECT_EQ(drawn[1]["tid"], 1);
  EXPECT_EQ(drawn[1]["name"], "gather");
  EXPECT_EQ(drawn[1]["ts"], 0.0);
}

}  // namespace
}  // namespace gimbal::gradsync
