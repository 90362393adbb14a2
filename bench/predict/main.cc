// How far the cost model's predictions are from what this machine does: all-reduces of direct and ring, 64 KiB to 32 MiB, for
// several numbers of ranks. Each is measured at every size; the model is told some (prediction.h) and predicts the others.
//
//   chrt -f 50 bench_predict [--ranks 2,4,8,16] [--save FILE.jsonl] [--svg FILE] [--json]
//   bench_predict --from FILE.jsonl        a run that was kept, judged again
//
// Exit status 1 when a prediction misses the goal, 2 for wrong arguments.
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/parse.h"
#include "bench/predict/report.h"
#include "tools/gimbal_bench/measure.h"
#include "tools/gimbal_bench/rank.h"
#include "tools/support/self_job.h"
#include "topology/cost_inputs.h"
#include "topology/discover.h"

namespace gimbal::predict {
namespace {

constexpr int kMissedStatus = 1;
constexpr int kUsageStatus = 2;
// Rounds over all sizes: as many as fit into the time, but enough for a median.
constexpr size_t kLeastRounds = 7;
constexpr size_t kMostRounds = 41;
constexpr int64_t kEachNs = 3'000'000'000;
constexpr const char* kAlgorithms[] = {"direct", "ring"};

// The slowest rank's time. The input is rewritten before and the output read after, as in a training step; a call that is not
// timed comes first, because what the size before has left in the caches is no property of this one.
Result<double> time_once(const bench::BenchRank& rank, size_t bytes) {
  auto* const input = reinterpret_cast<float*>(rank.first());
  const size_t count = bytes / sizeof(float);
  double own_us = 0;
  for (int call = 0; call < 2; ++call) {
    std::fill_n(input, count, static_cast<float>(rank.rank()));
    RETURN_IF_ERROR(rank.barrier());
    const int64_t begin_ns = monotonic_ns();
    RETURN_IF_ERROR(bench::to_status(
        gimbal_all_reduce(input, rank.second(), count, GIMBAL_FLOAT32, GIMBAL_SUM, rank.comm(), nullptr), "all_reduce"));
    own_us = static_cast<double>(monotonic_ns() - begin_ns) / 1e3;
  }
  const auto* const output = reinterpret_cast<const float*>(rank.second());
  const float expected = static_cast<float>(rank.ranks() - 1) * static_cast<float>(rank.ranks()) / 2;
  if (std::count(output, output + count, expected) != static_cast<std::ptrdiff_t>(count)) {
    return Status(Code::kInternal, "an all-reduce of " + std::to_string(bytes) + " bytes is wrong");
  }
  ASSIGN_OR_RETURN(const std::vector<double> all, rank.gather({own_us}));
  return *std::max_element(all.begin(), all.end());
}

// One rank of a job: sizes take turns, so that whatever disturbs a while disturbs them alike. Rank 0 appends to the file.
Status measure_as_rank(const std::string& algorithm, const std::string& path) {
  bench::Options options;
  options.max_bytes = sizes().back();
  ASSIGN_OR_RETURN(const std::unique_ptr<bench::BenchRank> rank, bench::BenchRank::create(options, {}));
  std::vector<std::vector<double>> times(sizes().size());
  const int64_t begin_ns = monotonic_ns();
  for (size_t round = 0; round <= kMostRounds; ++round) {
    for (size_t i = 0; i < sizes().size(); ++i) {
      ASSIGN_OR_RETURN(const double time_us, time_once(*rank, sizes()[i]));
      if (round > 0) times[i].push_back(time_us);  // the first is slower: pages are new
    }
    ASSIGN_OR_RETURN(const std::vector<double> elapsed, rank->gather({static_cast<double>(monotonic_ns() - begin_ns)}));
    if (round >= kLeastRounds && elapsed[0] > kEachNs) break;
  }
  if (rank->rank() != 0) return {};
  std::ofstream file(path, std::ios::app);
  for (size_t i = 0; i < sizes().size(); ++i) {
    file << format_measured({algorithm, rank->ranks(), sizes()[i], bench::summarize(std::move(times[i])).p50_us});
  }
  return file.good() ? Status() : Status(Code::kSystem, path + ": cannot be written");
}

Result<Machine> this_machine() {
  ASSIGN_OR_RETURN(const TopologyGraph graph, discover_topology());
  ASSIGN_OR_RETURN(const CostInputs inputs, cost_inputs(graph, {.ranks = 2}));
  utsname system = {};
  uname(&system);
  Machine machine;
  const std::vector<NodeId> packages = nodes_of_kind(graph, NodeKind::kPackage);
  const std::string model = packages.empty() ? "unknown CPU" : graph.nodes[packages[0]].model;
  machine.cpus = inputs.cpus;
  const std::string release = system.release;
  const std::string version = release.substr(0, release.find('.', release.find('.') + 1));
  machine.name = std::to_string(static_cast<int>(inputs.cpus)) + " CPUs of " + model + ", kernel " + version;
  machine.cache_bytes = inputs.cache_bytes;
  machine.link = link_class(inputs, 0, 1);
  return machine;
}

Status measure_all(const std::vector<Rank>& ranks, const std::string& path) {
  ASSIGN_OR_RETURN(const Machine machine, this_machine());
  {
    std::ofstream file(path, std::ios::trunc);
    file << format_machine(machine);
    if (!file.good()) return {Code::kSystem, path + ": cannot be written"};
  }
  for (const Rank count : ranks) {
    for (const char* algorithm : kAlgorithms) {
      setenv("GIMBAL_ALGORITHM", (std::string("all_reduce:") + algorithm).c_str(), 1);
      std::vector<std::string> arguments = {"bench_predict", "--as-rank", algorithm, "--save", path};
      std::vector<char*> pointers;
      pointers.reserve(arguments.size());
      for (std::string& argument : arguments) pointers.push_back(argument.data());
      ASSIGN_OR_RETURN(const int status,
                       run_self_as_ranks("bench_predict", count, static_cast<int>(pointers.size()), pointers.data()));
      if (status != 0) return {Code::kSystem, std::string(algorithm) + " over " + std::to_string(count) + " ranks failed"};
    }
  }
  return {};
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file.good()) text << file.rdbuf();
  if (!file.good()) return Status(Code::kSystem, path + ": cannot be read");
  return text.str();
}

Result<std::vector<Rank>> parse_ranks(const std::string& text) {
  std::vector<Rank> ranks;
  constexpr int64_t kMostRanks = 64;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const Result<int64_t> count = parse_integer(text.substr(start, end - start), 2, kMostRanks);
    if (!count.ok()) return Status(Code::kInvalidArgument, "--ranks: " + count.status().message());
    ranks.push_back(static_cast<Rank>(*count));
    start = end + 1;
  }
  return ranks;
}

struct Arguments {
  std::string ranks = "2,4,8,16";
  std::string from;
  std::string save;
  std::string svg;
  std::string as_rank;
  bool json = false;
};

// Whether all predictions are within the goal.
Result<bool> judge(const Arguments& arguments) {
  std::string path = arguments.from;
  if (path.empty()) {
    ASSIGN_OR_RETURN(const std::vector<Rank> ranks, parse_ranks(arguments.ranks));
    path = arguments.save.empty() ? "bench_predict." + std::to_string(getpid()) + ".jsonl" : arguments.save;
    RETURN_IF_ERROR(measure_all(ranks, path));
  }
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  if (arguments.from.empty() && arguments.save.empty()) std::remove(path.c_str());
  ASSIGN_OR_RETURN(const Figures figures, parse_figures(text));
  ASSIGN_OR_RETURN(const std::vector<Comparison> comparisons, compare(figures));
  const std::string report =
      arguments.json ? report_json(figures.machine, comparisons) : report_text(figures.machine, comparisons);
  std::fputs(report.c_str(), stdout);
  if (!arguments.svg.empty()) {
    std::ofstream file(arguments.svg);
    file << draw_report(figures.machine, comparisons);
    if (!file.good()) return Status(Code::kSystem, arguments.svg + ": cannot be written");
  }
  return missed(comparisons).empty();
}

int run(int argc, char** argv) {
  CLI::App app("Predicted and measured all-reduces of this machine, side by side.", "bench_predict");
  Arguments arguments;
  app.add_option("--ranks", arguments.ranks, "Numbers of ranks (2,4,8,16)");
  app.add_option("--from", arguments.from, "Judge this file instead of measuring");
  app.add_option("--save", arguments.save, "Keep the figures in this file");
  app.add_option("--svg", arguments.svg, "Draw into this file, too");
  app.add_flag("--json", arguments.json, "Print JSON");
  app.add_option("--as-rank", arguments.as_rank, "")->group("");  // how it starts itself
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {
    return app.exit(asked_for);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "bench_predict: %s (see --help)\n", error.what());
    return kUsageStatus;
  }
  Status status;
  if (!arguments.as_rank.empty()) {
    status = measure_as_rank(arguments.as_rank, arguments.save);
    if (status.ok()) return 0;
  } else {
    const Result<bool> is_good = judge(arguments);
    if (is_good.ok()) return *is_good ? 0 : kMissedStatus;
    status = is_good.status();
  }
  std::fprintf(stderr, "bench_predict: %s\n", status.message().c_str());
  return kUsageStatus;
}

}  // namespace
}  // namespace gimbal::predict

int main(int argc, char** argv) { return gimbal::predict::run(argc, argv); }
