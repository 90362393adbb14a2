// The timeline of gradient synchronization: every bucket's way on every rank, in one file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/gradient_synchronizer.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

const std::vector<size_t> kCounts = {3000, 1000, 3000};

gimbal_gradsync_options_t traced(gimbal_gradsync_wire_t wire) {
  gimbal_gradsync_options_t options = GIMBAL_GRADSYNC_OPTIONS_INIT;
  options.wire = wire;
  options.bucket_bytes = 8192;
  options.first_bucket_bytes = 4096;
  options.trace_steps = 2;
  return options;
}

void make_step(GradientSynchronizer& sync) {
  for (size_t i = kCounts.size(); i-- > 0;) sync.ready(i);
  sync.end();
}

// By rank and row.
using Rows = std::map<std::pair<int, int>, std::vector<nlohmann::json>>;

Rows read_rows(const std::string& path) {
  std::ifstream file(path);
  const auto document = nlohmann::json::parse(file);
  Rows rows;
  for (const auto& event : document["traceEvents"]) {
    if (event["ph"] == "X") rows[{event["pid"], event["tid"]}].push_back(event);
  }
  for (auto& [key, events] : rows) {
    std::ranges::stable_sort(events, {}, [](const auto& event) { return event["ts"].template get<double>(); });
  }
  return rows;
}

std::set<std::string> names(const std::vector<nlohmann::json>& events) {
  std::set<std::string> found;
  for (const auto& event : events) found.insert(event["name"]);
  return found;
}

class GradientTimeline : public ::testing::TestWithParam<RankKind> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GradientTimeline, ::testing::ValuesIn(rank_kinds()),
                         [](const auto& kind) { return rank_kind_name(kind.param); });

TEST_P(GradientTimeline, HasEveryBucketsWayOnEveryRank) {
  const std::string path = ::testing::TempDir() + "gimbal-timeline-" + std::to_string(getpid()) + ".json";
  for (const gimbal_gradsync_wire_t wire : {GIMBAL_GRADSYNC_WIRE_AS_IS, GIMBAL_GRADSYNC_WIRE_INT8}) {
    run_ranks(GetParam(), 2, [&](const RankContext& context) {
      GradientSynchronizer sync(context, kCounts, traced(wire));
      for (int step = 0; step < 3; ++step) make_step(sync);
      EXPECT_EQ(gimbal_gradsync_timeline(sync.get(), context.rank == 0 ? path.c_str() : nullptr), GIMBAL_OK)
          << gimbal_last_error();
      EXPECT_GT(sync.stats().buckets, 2u);
    });
    const Rows rows = read_rows(path);
    std::filesystem::remove(path);
    EXPECT_EQ(rows.at({0, 0}).size(), rows.at({1, 0}).size());
    for (const int rank : {0, 1}) {
      EXPECT_THAT(names(rows.at({rank, 0})), IsSupersetOf({"step", "exposed"}));
      for (int bucket = 1; bucket <= 3; ++bucket) {
        const std::vector<nlohmann::json>& events = rows.at({rank, bucket});
        std::set<std::string> expected = {"ready", "done"};
        if (wire == GIMBAL_GRADSYNC_WIRE_AS_IS) {
          expected.insert("reduce");
        } else {
          expected.insert({"queued", "encode", "scatter", "combine", "gather", "decode"});
        }
        EXPECT_EQ(names(events), expected) << "rank " << rank << ", bucket " << bucket;
        // Of the last two steps of three, one after the other.
        EXPECT_EQ(events.size(), 2 * expected.size());
        EXPECT_EQ(events.front()["args"]["step"], 1);
        EXPECT_EQ(events.back()["args"]["step"], 2);
        for (size_t i = 1; i < events.size(); ++i) {
          const double end = events[i - 1]["ts"].get<double>() + events[i - 1]["dur"].get<double>();
          EXPECT_GE(events[i]["ts"].get<double>(), end - 0.001) << events[i - 1] << events[i];
        }
      }
    }
  }
}

TEST_P(GradientTimeline, ThatCannotBeWrittenIsAnErrorOnEveryRankAndNothingElse) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    GradientSynchronizer sync(context, kCounts, traced(GIMBAL_GRADSYNC_WIRE_AS_IS));
    make_step(sync);
    EXPECT_EQ(gimbal_gradsync_timeline(sync.get(), "/nonexistent/timeline.json"), GIMBAL_SYSTEM);
    const std::string sentence = gimbal_last_error();
    EXPECT_THAT(sentence, HasSubstr(context.rank == 0 ? "cannot write /nonexistent/timeline.json: No such file"
                                                      : "rank 0 could not write the timeline"));
    make_step(sync);
  });
}

}  // namespace
}  // namespace gimbal::test
