// Moments, drawings and GOAL text of schedules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <tuple>

#include "collectives/node_shape.h"
#include "tools/gimbal_plan/goal.h"
#include "tools/gimbal_plan/moments.h"
#include "tools/gimbal_plan/plot_axis.h"
#include "tools/gimbal_plan/schedule_drawing.h"

namespace gimbal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Algorithm& ring() { return *find_algorithm(Collective::kAllReduce, "ring"); }

TEST(Moments, OfARingAreItsHops) {
  const NodeShape shape = NodeShape::uniform(1, 4);
  const CollectiveSpec spec = {.nranks = 4, .nodes = &shape};
  const Result<std::vector<Moment>> moments = moments_of(spec, build_all(ring(), spec, Fusion::kFused));
  ASSERT_TRUE(moments.ok()) << moments.status().message();
  ASSERT_EQ(moments->size(), 8U);  // the start, and 2 * 3 hops after the first sends
  EXPECT_EQ(moments->front().messages.size(), 0U);
  EXPECT_EQ((*moments)[1].messages.size(), 4U);
  for (const auto& rank : moments->back().chunks) {
    for (const ChunkState& chunk : rank) {
      EXPECT_EQ(chunk.inputs, 4);
      EXPECT_TRUE(chunk.is_final);
    }
  }
}

TEST(Moments, EveryAlgorithmEndsWithResults) {
  const NodeShape shape = NodeShape::consecutive(std::vector<Rank>{3, 2});
  for (const Algorithm* algorithm : algorithms_for(Collective::kAllReduce)) {
    const CollectiveSpec spec = {.nranks = 5, .nodes = &shape};
    const Result<std::vector<Moment>> moments = moments_of(spec, build_all(*algorithm, spec, Fusion::kNone));
    ASSERT_TRUE(moments.ok()) << algorithm->name << ": " << moments.status().message();
    for (const auto& rank : moments->back().chunks) {
      for (const ChunkState& chunk : rank) EXPECT_TRUE(chunk.is_final && chunk.inputs == 5) << algorithm->name;
    }
  }
}

TEST(Moments, TooManyToBeSeenAreRefused) {
  const NodeShape shape = NodeShape::uniform(1, 100);
  const CollectiveSpec spec = {.nranks = 100, .nodes = &shape};
  EXPECT_EQ(moments_of(spec, build_all(ring(), spec, Fusion::kFused)).status().code(), Code::kUnsupported);
}

TEST(Moments, SchedulesThatWaitForEachOtherAreRefused) {
  const NodeShape shape = NodeShape::uniform(1, 3);
  const CollectiveSpec spec = {.nranks = 3, .nodes = &shape};
  std::vector<Schedule> schedules = build_all(ring(), spec, Fusion::kNone);
  schedules[1].steps.erase(schedules[1].steps.begin());
  for (Step& step : schedules[1].steps) step.after = kNoStep;
  EXPECT_THAT(moments_of(spec, schedules).status().message(), HasSubstr("wait for each other for ever"));
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(ScheduleDrawing, HasACellForEveryChunkAndALineForEveryMessage) {
  const NodeShape shape = NodeShape::uniform(2, 2);
  const CollectiveSpec spec = {.nranks = 4, .nodes = &shape};
  const Result<std::string> svg = draw_schedule(spec, build_all(ring(), spec, Fusion::kFused), "a <ring>");
  ASSERT_TRUE(svg.ok()) << svg.status().message();
  EXPECT_THAT(*svg, HasSubstr("a &lt;ring&gt;"));
  EXPECT_THAT(*svg, HasSubstr("node 1"));
  EXPECT_EQ(count(*svg, "<line"), 4 * 6 + 3U);               // messages, and the legend
  EXPECT_EQ(count(*svg, "stroke=\"#ffffff\""), 8 * 4 * 4U);  // moments, ranks, chunks
  EXPECT_EQ(count(*svg, "fill=\"none\""), size_t{4 * 4});    // every chunk changes once on every rank: it becomes final
}

TEST(PlotAxis, PutsPowersAtEqualDistances) {
  const LogAxis axis({1, 1000}, 0, 300, 10);
  EXPECT_THAT(axis.ticks(), ElementsAre(1, 10, 100, 1000));
  EXPECT_NEAR(axis.at(10), 100, 1e-9);
  EXPECT_EQ(rounded_out(3, 250).least, 1);
  EXPECT_NEAR(rounded_out(3, 250).most, 1000, 1e-9);
  EXPECT_EQ(short_number(1024), "1024");
  EXPECT_EQ(short_number(150'000), "150k");
}

TEST(Goal, OfTwoRanksIsThis) {
  const CollectiveSpec spec = {.collective = Collective::kReduce, .nranks = 2};
  const GoalOptions options = {.chunk_bytes = 1000, .partial_ratio = 2, .memory = {.reduce_gbps = 20}};
  EXPECT_EQ(goal_text(*find_algorithm(Collective::kReduce, "chain"), spec, Fusion::kNone, options),
            "num_ranks 2\n"
            "\nrank 0 {\n"
            "l1: recv 1000b from 1 tag 0\n"
            "l2: calc 50\n"
            "l2 requires l1\n"
            "}\n"
            "\nrank 1 {\n"
            "l1: send 1000b to 0 tag 0\n"
            "}\n");
}

// Reads the text as LogGOPSim's parser does: what is sent must be received, and nothing may be required before it is there.
TEST(Goal, EverySendHasItsReceiveAndEveryRequirementIsEarlier) {
  const NodeShape shape = NodeShape::uniform(2, 3);
  for (const Algorithm& algorithm : algorithms()) {
    const CollectiveSpec spec = {.collective = algorithm.collective, .nranks = 6, .channels = 2, .nodes = &shape};
    std::istringstream text(goal_text(algorithm, spec, Fusion::kFused, {.chunk_bytes = 64}));
    std::map<std::tuple<std::string, std::string, std::string>, int> open;  // from, to, "bytes tag"
    std::string line;
    std::string rank;
    std::map<std::string, bool> labels;
    while (std::getline(text, line)) {
      std::istringstream words(line);
      std::string first, second, size, way, peer, tag_word, tag;
      words >> first >> second >> size >> way >> peer >> tag_word >> tag;
      if (first == "rank") {
        rank = second;
        labels.clear();
      } else if (second == "requires") {
        EXPECT_TRUE(labels[first] && labels[size]) << algorithm.name << ": " << line;
        EXPECT_LT(std::stoi(size.substr(1)), std::stoi(first.substr(1))) << algorithm.name << ": " << line;
      } else if (second == "send") {
        ++open[{rank, peer, size + tag}];
      } else if (second == "recv") {
        --open[{peer, rank, size + tag}];
      }
      if (!first.empty() && first.back() == ':') labels[first.substr(0, first.size() - 1)] = true;
    }
    for (const auto& [message, sent] : open) {
      EXPECT_EQ(sent, 0) << algorithm.name << ": from " << std::get<0>(message) << " to " << std::get<1>(message);
    }
  }
}

}  // namespace
}  // namespace gimbal
