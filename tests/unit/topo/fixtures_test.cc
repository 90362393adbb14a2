// The project's own machines (tests/fixtures/topology), each with the text and the JSON that it must read as beside it.
//
// After a wanted change: gimbal-topo --load X.xml --save X.json >X.txt in that folder, and read the difference.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/folders.h"
#include "tools/gimbal_topo/text_report.h"
#include "topology/graph_json.h"
#include "topology/load.h"

namespace gimbal::test {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> machines() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(source_file("tests/fixtures/topology"))) {
    if (entry.path().extension() == ".xml") names.push_back(entry.path().stem());
  }
  return names;
}

class Fixture : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static fs::path file(const std::string& extension) {
    return fs::path(source_file("tests/fixtures/topology")) / (GetParam() + extension);
  }
};

TEST_P(Fixture, ReadsAsTheTextBesideIt) {
  const Result<TopologyGraph> graph = load_topology_file(file(".xml"));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(text_report(*graph, GetParam() + ".xml"), read_file(file(".txt")));
}

TEST_P(Fixture, ReadsAsTheJsonBesideIt) {
  const Result<TopologyGraph> graph = load_topology_file(file(".xml"));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph_to_json(*graph), read_file(file(".json")));
}

INSTANTIATE_TEST_SUITE_P(Topology, Fixture, testing::ValuesIn(machines()), [](const auto& machine) { return machine.param; });

}  // namespace
}  // namespace gimbal::test
