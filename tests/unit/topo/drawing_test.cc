// The drawing: well-formed, complete, and safe with hostile names. What it looks like is for eyes.
#include "tools/gimbal_topo/drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/folders.h"
#include "tools/gimbal_topo/json_report.h"
#include "topology/graph_json.h"
#include "topology/load.h"

namespace gimbal::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TopologyGraph fixture(const std::string& name) {
  Result<TopologyGraph> graph = load_topology_file(source_file("tests/fixtures/topology/" + name));
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? *graph : TopologyGraph{};
}

TEST(Drawing, ShowsEveryDeviceWithItsBusIdAndTheRings) {
  const TopologyGraph graph = fixture("nvswitch8.xml");
  const std::string svg = draw_svg(graph, "nvswitch8.xml");
  for (const TopologyNode& node : graph.nodes) {
    if (node.kind != NodeKind::kGpu && node.kind != NodeKind::kNic) continue;
    EXPECT_THAT(svg, HasSubstr(">" + format(*node.bus_id) + "<"));
  }
  EXPECT_THAT(svg, HasSubstr("4 NVSwitches, 450 GB/s a GPU"));
  EXPECT_THAT(svg, HasSubstr("channel 3, rail NIC 3"));
  EXPECT_THAT(svg, HasSubstr("and 4 more channels"));
}

TEST(Drawing, EveryFixtureCanBeDrawn) {
  for (const char* name : {"hybrid.xml", "memory_only.xml", "no_io.xml", "no_numa.xml", "pcie4.xml", "two_socket.xml"}) {
    EXPECT_THAT(draw_svg(fixture(name), name), ::testing::EndsWith("</svg>\n")) << name;
  }
}

TEST(Drawing, NamesAreTextAndNeverMarkup) {
  TopologyGraph graph;
  add_node(graph, {.name = "<script>alert(\"&\")</script>"});
  EXPECT_THAT(draw_svg(graph, ""), Not(HasSubstr("<script>")));
  EXPECT_THAT(draw_svg(graph, ""), HasSubstr("&lt;script&gt;alert(&quot;&amp;&quot;)"));
}

TEST(JsonReport, CanBeLoadedAsTheMachineItTellsOf) {
  const TopologyGraph graph = fixture("pcie4.xml");
  const Result<TopologyGraph> again = graph_from_json(json_report(graph));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(graph_to_json(*again), graph_to_json(graph));
}

}  // namespace
}  // namespace gimbal::test
