// Measures every way of carrying out a collective, size by size, and compares what the library takes with the best.
//
//   regret FILE.jsonl MACHINE [RANKS...]      (default 2 4 8; all_reduce, reduce_scatter, all_gather, broadcast, all_to_all)
//
// The ranks are processes. Each way's time is the median over repetitions of the slowest rank (runtime/measure_ways.h); the
// ways take turns. The file gets a line about the machine and one line for every timing; what the library takes, with the tune
// cache that is there, is marked. The marks to meet: median at most 1.05, worst at most 1.25.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/parse.h"
#include "collectives/chunk_space.h"
#include "collectives/regret.h"
#include "runtime/communicator.h"
#include "runtime/measure_ways.h"
#include "tools/support/self_job.h"

namespace gimbal {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kCollectives = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                     Collective::kBroadcast, Collective::kAllToAll};
constexpr size_t kMostVectorBytes = size_t{16} << 20;
constexpr MeasureBudget kBudget = {.each_us = 15'000, .least = 9, .most = 200};

int refuse(const std::string& sentence) {
  std::fprintf(stderr, "regret: %s\n", sentence.c_str());
  return 1;
}

// The ranks share one machine; which caches they share does not change what ways there are.
CostInputs any_machine(Rank ranks) {
  CostInputs inputs;
  inputs.ranks_per_node = ranks;
  inputs.place_of.assign(static_cast<size_t>(ranks), 0);
  return inputs;
}

Status measure_size(Communicator& communicator, Collective collective, size_t bytes, std::ofstream& file) {
  const std::vector<Way> ways = ways_for(any_machine(communicator.size()), communicator.size(), collective, bytes);
  const Way taken = communicator.way(collective, bytes, DType::kFloat32);
  ASSIGN_OR_RETURN(const std::vector<double> times, measure_ways(communicator, collective, bytes, ways, kBudget));
  if (communicator.rank() != 0) return {};
  for (size_t i = 0; i < ways.size(); ++i) {
    const bool is_chosen = ways[i].algorithm == taken.algorithm && ways[i].protocol == taken.protocol;
    const Json line = {{"ranks", communicator.size()},
                       {"collective", collective_name(collective)},
                       {"bytes", bytes},
                       {"way", describe(ways[i])},
                       {"median_us", times[i]},
                       {"chosen", is_chosen}};
    file << line.dump() << "\n" << std::flush;
  }
  return {};
}

Status measure_as_rank(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Communicator> communicator, Communicator::create(nullptr));
  std::ofstream file;
  if (communicator->rank() == 0) file.open(path, std::ios::app);
  // Two sweeps, seconds apart, of which the lower time counts: what else runs only slows down.
  for (size_t i = 0; i < 2 * kCollectives.size(); ++i) {
    const Collective collective = kCollectives[i % kCollectives.size()];
    const size_t blocks = has_blocks(collective) ? static_cast<size_t>(communicator->size()) : 1;
    for (size_t bytes = 8; bytes * blocks <= kMostVectorBytes; bytes *= 4) {
      RETURN_IF_ERROR(measure_size(*communicator, collective, bytes, file));
    }
  }
  return {};
}

std::vector<Timing> read_timings(const std::string& path) {
  std::vector<Timing> timings;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    const Json line = Json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("way")) continue;
    const Timing timing = {std::to_string(line["ranks"].get<int>()) + " ranks " + line["collective"].get<std::string>() +
                               " of " + std::to_string(line["bytes"].get<size_t>()),
                           line["way"], line["median_us"], line["chosen"]};
    const auto earlier = std::find_if(timings.begin(), timings.end(), [&](const Timing& other) {
      return other.subject == timing.subject && other.way == timing.way;
    });
    if (earlier == timings.end()) {
      timings.push_back(timing);
    } else {
      earlier->time_us = std::min(earlier->time_us, timing.time_us);
    }
  }
  return timings;
}

void print(const Regret& regret) {
  for (const SubjectRegret& subject : regret.subjects) {
    std::printf("%-40s %-22s %10.2f us   best %-22s %10.2f us   %.2f\n", subject.subject.c_str(), subject.chosen.c_str(),
                subject.chosen_us, subject.best.c_str(), subject.best_us, subject.ratio());
  }
  std::printf("chosen over best: median %.3f, worst %.3f, over %zu sizes\n", regret.median, regret.worst,
              regret.subjects.size());
}

int run(int argc, char** argv) {
  if (argc < 3) return refuse("arguments are: FILE.jsonl MACHINE [RANKS...]");
  const std::string path = argv[1];
  if (is_started_as_rank()) {
    const Status measured = measure_as_rank(path);
    return measured.ok() ? 0 : refuse(measured.message());
  }
  std::ofstream(path) << Json{{"machine", argv[2]}, {"tuned", read_environment("GIMBAL_TUNE_CACHE").has_value()}}.dump()
                      << "\n";
  std::vector<std::string> counts(argv + 3, argv + argc);
  if (counts.empty()) counts = {"2", "4", "8"};
  for (const std::string& count : counts) {
    const Result<int64_t> ranks = parse_integer(count, 2, 64);
    if (!ranks.ok()) return refuse(ranks.status().message());
    const Result<int> status = run_self_as_ranks("regret", static_cast<Rank>(*ranks), argc, argv);
    if (!status.ok()) return refuse(status.status().message());
    if (*status != 0) return *status;
  }
  print(find_regret(read_timings(path)));
  return 0;
}

}  // namespace
}  // namespace gimbal

int main(int argc, char** argv) { return gimbal::run(argc, argv); }
