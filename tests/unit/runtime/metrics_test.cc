// The metrics file, read by the rules of Prometheus' text format 0.0.4.
#include "runtime/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace gimbal::test {
namespace {

using testing::HasSubstr;

// What `promtool check metrics` holds a text to, as far as it concerns this one: throws with the line that breaks a rule.
class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    if (text.empty() || text.back() != '\n') throw std::runtime_error("the last line does not end");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) read(line);
  }
  // name{labels as they stand there}
  [[nodiscard]] double value(const std::string& sample) const {
    const auto found = samples_.find(sample);
    if (found == samples_.end()) throw std::runtime_error("no sample " + sample);
    return found->second;
  }
  [[nodiscard]] const std::map<std::string, double>& samples() const { return samples_; }

 private:
  void read(const std::string& line) {
    static const std::regex kHelp(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) \S.*)");
    static const std::regex kType(R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge))");
    static const std::regex kSample(
        R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\]|\\\\|\\"|\\n)*",?)+\}) (\S+))re");
    std::smatch match;
    if (std::regex_match(line, match, kHelp)) {
      if (!helped_.insert(match[1]).second) throw std::runtime_error("a second HELP: " + line);
    } else if (std::regex_match(line, match, kType)) {
      family_ = match[1];
      if (!helped_.contains(family_) || !typed_.insert(family_).second) throw std::runtime_error("TYPE out of place: " + line);
      const bool is_total = family_.ends_with("_total");
      if ((match[2] == "counter") != is_total) throw std::runtime_error("counters, and only they, end in _total: " + line);
    } else if (std::regex_match(line, match, kSample)) {
      if (match[1] != family_) throw std::runtime_error("a sample outside its family: " + line);
      size_t used = 0;
      const double number = std::stod(match[5], &used);
      if (used != match[5].str().size()) throw std::runtime_error("no number: " + line);
      if (!samples_.emplace(match[1].str() + match[2].str(), number).second) throw std::runtime_error("twice: " + line);
    } else {
      throw std::runtime_error("no line of the format: " + line);
    }
  }
  std::string family_;
  std::set<std::string> helped_;
  std::set<std::string> typed_;
  std::map<std::string, double> samples_;
};

Metrics some_metrics() {
  Metrics metrics;
  metrics.communicator = "a \"name\"\\\nof two lines";
  metrics.rank = 1;
  metrics.size = 3;
  metrics.operations = 12'345'678'901;
  metrics.bytes = 4;
  metrics.errors = 1;
  metrics.wait_seconds = 0.25;
  metrics.peers = {{.wait_seconds = 1e-7, .late = 3}, {}, {.wait_seconds = 2, .late = 0}};
  return metrics;
}

TEST(Metrics, KeepTheRulesOfTheTextFormat) {
  const Exposition read(metrics_text(some_metrics()));
  const std::string labels = R"(communicator="a \"name\"\\\nof two lines",rank="1")";
  EXPECT_EQ(read.value("gimbal_operations_total{" + labels + "}"), 12'345'678'901);
  EXPECT_EQ(read.value("gimbal_wait_seconds_total{" + labels + "}"), 0.25);
  EXPECT_EQ(read.value("gimbal_peer_wait_seconds_total{" + labels + ",peer=\"0\"}"), 1e-7);
  EXPECT_EQ(read.value("gimbal_peer_late_total{" + labels + ",peer=\"0\"}"), 3);
  EXPECT_FALSE(read.samples().contains("gimbal_peer_late_total{" + labels + ",peer=\"1\"}")) << "a rank is no peer of its own";
}

TEST(Metrics, OfOneRankHaveNoPeers) {
  Metrics alone;
  alone.communicator = "world";
  alone.peers.resize(1);
  const std::string text = metrics_text(alone);
  EXPECT_NO_THROW(Exposition{text});
  EXPECT_THAT(text, testing::Not(HasSubstr("gimbal_peer_")));
}

TEST(Metrics, AreNotPassedByTheReaderWhenAFamilyIsBroken) {
  std::string text = metrics_text(some_metrics());
  text.replace(text.find("# TYPE gimbal_errors_total counter"), 34, "# TYPE gimbal_errors_total gauge");
  EXPECT_THROW(Exposition{text}, std::runtime_error);
}

TEST(MetricsFile, IsReplacedAsAWholeAndLeavesNothingBesideIt) {
  const std::string folder = testing::TempDir() + "metrics-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  MetricsFile file(folder + "/rank.prom", 1'000'000);
  EXPECT_FALSE(file.due());
  ASSERT_TRUE(file.write("first\n").ok());
  std::ifstream reader(folder + "/rank.prom");
  ASSERT_TRUE(file.write("second\n").ok());
  std::string line;
  std::getline(reader, line);
  EXPECT_EQ(line, "first") << "who has it open reads the old one";
  std::ifstream again(folder + "/rank.prom");
  std::getline(again, line);
  EXPECT_EQ(line, "second");
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++entries;
  EXPECT_EQ(entries, 1u);
  std::filesystem::remove_all(folder);
}

TEST(MetricsFile, ThatCannotBeWrittenIsAnErrorWithItsPath) {
  MetricsFile file("/nowhere/at/all/rank.prom", 1);
  const Status status = file.write("x\n");
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/at/all/rank.prom"));
}

}  // namespace
}  // namespace gimbal::test
