#include "tools/gimbal_topo/tune.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/cpu.h"
#include "base/environment.h"
#include "base/parse.h"
#include "runtime/communicator.h"
#include "runtime/tune.h"
#include "runtime/version.h"
#include "tools/support/binding.h"
#include "tools/support/self_job.h"
#include "topology/discover.h"
#include "topology/fingerprint.h"
#include "topology/load.h"

namespace gimbal {
namespace {

constexpr int kFailedStatus = 1;
constexpr int kUsageStatus = 2;
constexpr int64_t kMostRanks = 1024;

int refuse(const std::string& sentence, int status) {
  std::fprintf(stderr, "gimbal-topo: %s\n", sentence.c_str());
  return status;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

Result<std::vector<int>> rank_counts(const std::string& text) {
  if (text.empty()) return default_rank_counts(static_cast<int>(allowed_cpus().size()));
  std::vector<int> counts;
  for (const std::string& item : split(text)) {
    const Result<int64_t> count = parse_integer(item, 2, kMostRanks);
    if (!count.ok()) return Status(Code::kInvalidArgument, "--ranks: " + count.status().message());
    counts.push_back(static_cast<int>(*count));
  }
  return counts;
}

Result<std::vector<Collective>> collectives(const std::string& text) {
  const std::span<const Collective> all = tunable_collectives();
  if (text.empty()) return std::vector<Collective>(all.begin(), all.end());
  std::vector<Collective> wanted;
  for (const std::string& item : split(text)) {
    const std::optional<Collective> collective = parse_collective(item);
    if (!collective || std::find(all.begin(), all.end(), *collective) == all.end()) {
      std::string names;
      for (const Collective known : all) names += (names.empty() ? "" : ", ") + std::string(collective_name(known));
      return Status(Code::kInvalidArgument, "--collective: \"" + item + "\" is not one of " + names);
    }
    wanted.push_back(*collective);
  }
  return wanted;
}

// The machine as the library will see it: a file's where GIMBAL_TOPO_FILE names one.
struct Machine {
  TopologyGraph graph;
  uint64_t fingerprint = 0;
};

Result<Machine> find_machine() {
  Machine machine;
  if (const auto file = read_environment("GIMBAL_TOPO_FILE")) {
    ASSIGN_OR_RETURN(machine.graph, load_topology_file(*file));
    machine.fingerprint = graph_fingerprint(machine.graph);
  } else {
    ASSIGN_OR_RETURN(machine.graph, discover_topology());
    machine.fingerprint = machine_fingerprint("");
  }
  return machine;
}

// Puts the run into the file beside those of other numbers of ranks. What the file held of another version or machine goes.
Status keep(const std::string& path, uint64_t fingerprint, TunedRun run) {
  ASSIGN_OR_RETURN(const std::string text, read_tuning_file(path));
  Tuning tuning;
  if (Result<Tuning> before = parse_tuning(text); before.ok()) tuning = std::move(before).value();
  const std::string version = version_text(library_version());
  if (tuning.version != version || tuning.fingerprint != fingerprint) tuning.runs.clear();
  tuning.version = version;
  tuning.fingerprint = fingerprint;
  merge_run(tuning, std::move(run));
  return write_tuning_file(path, format_tuning(tuning));
}

Status run_as_rank(const TuneCommand& command) {
  ASSIGN_OR_RETURN(const std::vector<Collective> wanted, collectives(command.collectives));
  ASSIGN_OR_RETURN(const std::shared_ptr<Communicator> communicator, Communicator::create(nullptr));
  if (communicator->size() < 2) return {Code::kInvalidUsage, "tune needs at least 2 ranks"};
  Machine machine;
  if (communicator->rank() == 0) {
    ASSIGN_OR_RETURN(machine, find_machine());
  }
  TuneOptions options;
  options.collectives = wanted;
  options.progress = [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  ASSIGN_OR_RETURN(TunedRun run, tune(*communicator, machine.graph, options));
  if (communicator->rank() != 0) return {};
  const std::string setting = command.output.empty() ? read_environment("GIMBAL_TUNE_CACHE").value_or("") : command.output;
  const std::string path = tuning_path(setting, machine.fingerprint);
  if (path.empty()) {
    return {Code::kInvalidUsage, "nowhere to keep what was measured: set GIMBAL_TUNE_CACHE or --output to a file"};
  }
  RETURN_IF_ERROR(keep(path, machine.fingerprint, std::move(run)));
  std::printf("%d ranks: kept in %s\n", communicator->size(), path.c_str());
  return {};
}

}  // namespace

std::vector<int> default_rank_counts(int cpus) {
  constexpr int kLeastGreatest = 8;  // more ranks than CPUs are common where CPUs are few
  std::set<int> counts;
  for (int ranks = 2; ranks <= std::max(cpus, kLeastGreatest); ranks *= 2) counts.insert(ranks);
  if (cpus >= 2) counts.insert(cpus);
  return {counts.begin(), counts.end()};
}

int run_tune(const TuneCommand& command, int argc, char** argv) {
  if (is_started_as_rank()) {
    const Status measured = run_as_rank(command);
    return measured.ok() ? 0 : refuse(measured.message(), kFailedStatus);
  }
  const Result<std::vector<int>> counts = rank_counts(command.ranks);
  if (!counts.ok()) return refuse(counts.status().message(), kUsageStatus);
  if (const auto wanted = collectives(command.collectives); !wanted.ok()) {
    return refuse(wanted.status().message(), kUsageStatus);
  }
  for (const int ranks : *counts) {
    const Result<int> status = run_self_as_ranks("gimbal-topo", ranks, argc, argv);
    if (!status.ok()) return refuse(status.status().message(), kFailedStatus);
    if (*status != 0) return *status;
  }
  return 0;
}

}  // namespace gimbal
