// bench/predict on figures that were recorded, and on some that are wrong.
#include "bench/predict/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "bench/predict/report.h"
#include "tests/support/folders.h"

namespace gimbal::predict {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Figures recorded() {
  std::ostringstream text;
  text << std::ifstream(test::source_file("bench/results/2core-epyc/predict.jsonl")).rdbuf();
  const Result<Figures> figures = parse_figures(text.str());
  EXPECT_TRUE(figures.ok()) << figures.status().message();
  return figures.ok() ? *figures : Figures();
}

// One prediction of the recorded run misses the goal (bench/results/README.md says why): a model that misses others is worse.
TEST(Prediction, OfTheRecordedRunIsWithinTheGoalButForOne) {
  const Result<std::vector<Comparison>> comparisons = compare(recorded());
  ASSERT_TRUE(comparisons.ok()) << comparisons.status().message();
  ASSERT_EQ(comparisons->size(), 80U);
  for (const Comparison& comparison : missed(*comparisons)) {
    EXPECT_TRUE(comparison.algorithm == "direct" && comparison.ranks == 2 && comparison.bytes == 16 << 20)
        << comparison.algorithm << " over " << comparison.ranks << " ranks, " << comparison.bytes
        << " bytes: " << comparison.predicted_us << " us predicted, " << comparison.measured_us << " us measured";
  }
}

TEST(Prediction, IsMadeFromTheLearnedSizesOnly) {
  Figures figures = recorded();
  const Result<std::vector<Comparison>> before = compare(figures);
  for (Measured& measured : figures.measured) {
    if (!is_learned(measured.bytes)) measured.median_us *= 10;
  }
  const Result<std::vector<Comparison>> after = compare(figures);
  ASSERT_TRUE(before.ok() && after.ok());
  for (size_t i = 0; i < before->size(); ++i) EXPECT_EQ((*after)[i].predicted_us, (*before)[i].predicted_us);
}

TEST(Prediction, ThatIsWrongIsFound) {
  Figures figures = recorded();
  Measured& planted = figures.measured[figures.measured.size() / 2];
  while (is_learned(planted.bytes) || planted.bytes < kLeastBytes) planted = *(&planted + 1);
  const size_t before = missed(*compare(figures)).size();
  planted.median_us *= 1.8;
  const Result<std::vector<Comparison>> comparisons = compare(figures);
  ASSERT_TRUE(comparisons.ok());
  const std::vector<Comparison> found = missed(*comparisons);
  ASSERT_EQ(found.size(), before + 1);
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const Comparison& c) { return c.measured_us == planted.median_us; }));
  EXPECT_THAT(report_text(figures.machine, *comparisons), HasSubstr(" MISSED\n"));
}

TEST(Prediction, LearnedSizesArePredictedExactly) {
  const Result<std::vector<Comparison>> comparisons = compare(recorded());
  ASSERT_TRUE(comparisons.ok());
  for (const Comparison& comparison : *comparisons) {
    if (!comparison.learned) continue;
    EXPECT_NEAR(comparison.error(), 0, 1e-9);
  }
}

TEST(Prediction, IsShownAsTextJsonAndDrawing) {
  const Figures figures = recorded();
  const Result<std::vector<Comparison>> comparisons = compare(figures);
  ASSERT_TRUE(comparisons.ok());
  EXPECT_THAT(report_text(figures.machine, *comparisons), AllOf(StartsWith(figures.machine.name), HasSubstr(" within 25 %")));
  EXPECT_THAT(report_json(figures.machine, *comparisons), HasSubstr("\"in_goal\": true"));
  EXPECT_THAT(draw_report(figures.machine, *comparisons), AllOf(StartsWith("<svg "), HasSubstr("16 ranks, us")));
}

TEST(Figures, AreReadAsTheyWereWritten) {
  const Machine machine = {"a \"fast\" machine", 2, 1 << 20, LinkClass::kNuma};
  const Measured measured = {"ring", 4, 65536, 12.5};
  const Result<Figures> figures = parse_figures(format_machine(machine) + format_measured(measured));
  ASSERT_TRUE(figures.ok()) << figures.status().message();
  EXPECT_EQ(figures->machine.name, machine.name);
  EXPECT_EQ(figures->machine.link, machine.link);
  ASSERT_EQ(figures->measured.size(), 1U);
  EXPECT_EQ(figures->measured[0].median_us, 12.5);
}

TEST(Figures, ThatAreNoneNameTheLine) {
  const std::string machine = format_machine({"machine", 2, 1 << 20, LinkClass::kCache});
  const auto error = [](const std::string& text) { return parse_figures(text).status().message(); };
  EXPECT_THAT(error(""), HasSubstr("line 1: no machine"));
  EXPECT_THAT(error("{}"), HasSubstr("line 1: no machine"));
  EXPECT_THAT(error("rubbish\n"), HasSubstr("line 1: no JSON object"));
  EXPECT_THAT(error(machine + "[1]\n"), HasSubstr("line 2: no JSON object"));
  EXPECT_THAT(error(machine + R"({"algorithm": "ring", "ranks": 1, "bytes": 8, "median_us": 1})"),
              HasSubstr("line 2: no figure"));
  EXPECT_THAT(error(machine + R"({"algorithm": "ring", "ranks": 2, "bytes": 8, "median_us": -1})"),
              HasSubstr("line 2: no figure"));
  EXPECT_THAT(error(machine + R"({"algorithm": "rong", "ranks": 2, "bytes": 8, "median_us": 1})"),
              HasSubstr("line 2: there is no algorithm \"rong\""));
}

}  // namespace
}  // namespace gimbal::predict
