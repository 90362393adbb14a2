#include "runtime/tune.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/ticks.h"
#include "collectives/chunk_space.h"
#include "kernels/reduce.h"
#include "topology/cost_inputs.h"

namespace gimbal {
namespace {

constexpr std::array kTunable = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                 Collective::kBroadcast, Collective::kReduce,        Collective::kAllToAll,
                                 Collective::kGather,    Collective::kScatter};

constexpr size_t kLeastBytes = 8;
constexpr size_t kMostVectorBytes = size_t{32} << 20;  // beyond it memory decides, and factors stay as they are
constexpr size_t kSizeStep = 4;
// Ways that are measured together at one size, and how often more are taken because one that was not measured looks best.
constexpr size_t kClosest = 3;
constexpr int kMostTurns = 3;

// What one CPU copies and adds, by the kernels that operations use.
class MemoryProbe {
 public:
  explicit MemoryProbe(size_t bytes) : from_(bytes / sizeof(float), 1.0F), to_(from_.size()) {}

  double copy_gbps() {
    return rate([this] { copy_bytes(to_.data(), from_.data(), bytes(), StoreMode::kCached); });
  }
  double reduce_gbps() {
    const ReduceFunction reduce = find_reduce(DType::kFloat32, ReduceOp::kSum);
    const std::array<ReduceSource, 2> sources = {ReduceSource{from_.data(), Form::kElement, 1.0},
                                                 ReduceSource{to_.data(), Form::kElement, 1.0}};
    const std::array<void*, 1> destinations = {to_.data()};
    ReduceArguments arguments;
    arguments.sources = sources;
    arguments.destinations = destinations;
    arguments.count = from_.size();
    return rate([&] { reduce(arguments); });
  }

 private:
  [[nodiscard]] size_t bytes() const { return from_.size() * sizeof(float); }

  // The best of a few: what disturbs only slows down.
  template <typename Work>
  double rate(const Work& work) {
    constexpr int kRepetitions = 5;
    constexpr size_t kLeastWork = size_t{4} << 20;  // bytes in one timing
    const size_t times = std::max<size_t>(1, kLeastWork / bytes());
    int64_t best_ns = INT64_MAX;
    work();
    for (int i = 0; i < kRepetitions; ++i) {
      const int64_t began = monotonic_ns();
      for (size_t k = 0; k < times; ++k) work();
      best_ns = std::min(best_ns, std::max<int64_t>(1, monotonic_ns() - began));
    }
    return static_cast<double>(times * bytes()) / static_cast<double>(best_ns);
  }

  std::vector<float> from_;
  std::vector<float> to_;
};

void measure_memory(CostInputs& inputs) {
  constexpr size_t kCached = size_t{512} << 10;
  constexpr size_t kMostBytes = size_t{64} << 20;
  MemoryProbe cached(kCached);
  MemoryProbe memory(std::clamp<size_t>(2 * inputs.cache_bytes, kCached, kMostBytes));
  inputs.memory.copy_gbps = memory.copy_gbps();
  inputs.memory.cached_copy_gbps = cached.copy_gbps();
  inputs.memory.reduce_gbps = memory.reduce_gbps();
  inputs.memory.cached_reduce_gbps = cached.reduce_gbps();
}

Status broadcast(Communicator& communicator, std::span<char> bytes) {
  Call call;
  call.collective = Collective::kBroadcast;
  call.root = 0;
  call.count = bytes.size();
  call.send = bytes.data();
  call.recv = bytes.data();
  return communicator.run(call);
}

// Rank 0 looks at the machine while the others wait, and tells them: all ranks must calculate with the same numbers.
Result<CostInputs> agree_on_inputs(Communicator& communicator, const TopologyGraph& graph) {
  Result<CostInputs> inputs = CostInputs();
  std::string text;
  if (communicator.rank() == 0) {
    inputs = cost_inputs(graph, {.ranks = communicator.size()});
    if (inputs.ok()) {
      inputs->cpus = communicator.cpus();
      measure_memory(*inputs);
      Tuning tuning;
      tuning.runs.emplace_back().inputs = *inputs;
      text = format_tuning(tuning);
    }
  }
  std::array<char, sizeof(uint64_t)> length = {};
  const uint64_t own_length = text.size();
  std::memcpy(length.data(), &own_length, sizeof(own_length));
  RETURN_IF_ERROR(broadcast(communicator, length));
  uint64_t common_length = 0;
  std::memcpy(&common_length, length.data(), sizeof(common_length));
  if (common_length == 0) {
    return inputs.ok() ? Status(Code::kRemote, "rank 0 could not describe this machine") : inputs.status();
  }
  text.resize(common_length);
  RETURN_IF_ERROR(broadcast(communicator, text));
  if (communicator.rank() == 0) return inputs;
  ASSIGN_OR_RETURN(Tuning tuning, parse_tuning(text));
  return std::move(tuning.runs.front().inputs);
}

// Chooses again where a schedule must save more to take direct's place: the same operation takes up to a seventh longer or
// shorter in the next job, as its ranks meet other CPUs and neighbours (bench/results, regret), and direct moves the fewest
// bytes.
void favour_direct(std::vector<SizeOptions>& sizes) {
  constexpr double kSpread = 1.15;
  for (SizeOptions& size : sizes) {
    for (Option& option : size.options) {
      if (option.way.algorithm != kDirectAlgorithm) option.time_us *= kSpread;
    }
  }
  choose_ways(sizes);
}

std::string size_text(size_t bytes) {
  if (bytes >= size_t{1} << 20) return std::to_string(bytes >> 20) + " MiB";
  return bytes >= 1024 ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes) + " B";
}

class CollectiveTuner {
 public:
  CollectiveTuner(Communicator& communicator, const TuneOptions& options, Collective collective, TunedRun& run)
      : communicator_(communicator), options_(options), collective_(collective), run_(run) {
    const size_t blocks = has_blocks(collective) ? static_cast<size_t>(communicator.size()) : 1;
    for (size_t bytes = kLeastBytes; bytes * blocks <= kMostVectorBytes; bytes *= kSizeStep) sizes_.push_back(bytes);
  }

  Status measure() {
    for (const size_t bytes : sizes_) RETURN_IF_ERROR(measure_closest(bytes));
    RETURN_IF_ERROR(measure_crossovers());
    for (const DType dtype : {DType::kUint8, DType::kFloat32, DType::kBfloat16, DType::kFloat8E4m3}) {
      if (table_type(collective_, dtype) != dtype) continue;
      std::vector<SizeOptions> sizes = tuner().table(collective_, dtype);
      favour_direct(sizes);
      run_.tables[{collective_, dtype}] = rows_of(sizes);
    }
    return {};
  }

 private:
  [[nodiscard]] Tuner tuner() const { return Tuner(CostModel(run_.inputs, communicator_.size()), run_.corrections); }

  // The ways that may be the cheapest, until the cheapest has been measured at this size.
  Status measure_closest(size_t bytes) {
    std::vector<Way> measured;
    for (int turn = 0; turn < kMostTurns; ++turn) {
      const std::vector<Option> options = tuner().options(collective_, bytes, DType::kFloat32).options;
      std::vector<Way> next;
      for (const Option& option : options) {
        const bool is_known = std::find(measured.begin(), measured.end(), option.way) != measured.end();
        if (turn > 0 && next.empty() && is_known) break;
        if (!is_known && next.size() < kClosest) next.push_back(option.way);
      }
      if (next.empty()) break;
      RETURN_IF_ERROR(measure_together(bytes, next));
      measured.insert(measured.end(), next.begin(), next.end());
    }
    report(bytes);
    return {};
  }

  Status measure_crossovers() {
    for (size_t i = 1; i < sizes_.size(); ++i) {
      const Way below = best(sizes_[i - 1]);
      const Way above = best(sizes_[i]);
      const size_t middle = sizes_[i - 1] * kSizeStep / 2;
      if (below == above || !direct_or_schedule_serves(below, middle)) continue;
      RETURN_IF_ERROR(measure_together(middle, {below, above}));
    }
    return {};
  }

  [[nodiscard]] Way best(size_t bytes) const {
    return tuner().options(collective_, bytes, DType::kFloat32).options.front().way;
  }
  [[nodiscard]] bool direct_or_schedule_serves(const Way& way, size_t bytes) const {
    return way.protocol == Protocol::kSlots || direct_serves(collective_, way.protocol, bytes);
  }

  Status measure_together(size_t bytes, const std::vector<Way>& ways) {
    ASSIGN_OR_RETURN(const std::vector<double> times, measure_ways(communicator_, collective_, bytes, ways, options_.budget));
    const CostModel model(run_.inputs, communicator_.size());
    for (size_t i = 0; i < ways.size(); ++i) {
      ASSIGN_OR_RETURN(const Cost cost, model.cost(ways[i], collective_, bytes, DType::kFloat32));
      const double factor = std::clamp(times[i] / std::max(cost.time_us(), 1e-3), 1e-6, 1e6);
      run_.corrections.add({collective_, std::string(ways[i].algorithm), ways[i].protocol, bytes, factor});
    }
    return {};
  }

  void report(size_t bytes) const {
    if (communicator_.rank() != 0 || !options_.progress) return;
    const Option option = tuner().options(collective_, bytes, DType::kFloat32).options.front();
    char time[32];
    std::snprintf(time, sizeof(time), "%.1f us", option.time_us);
    options_.progress(std::to_string(communicator_.size()) + " ranks, " + std::string(collective_name(collective_)) + " of " +
                      size_text(bytes) + ": " + describe(option.way) + ", " + time);
  }

  Communicator& communicator_;
  const TuneOptions& options_;
  const Collective collective_;
  TunedRun& run_;
  std::vector<size_t> sizes_;
};

}  // namespace

std::span<const Collective> tunable_collectives() { return kTunable; }

Result<TunedRun> tune(Communicator& communicator, const TopologyGraph& graph, const TuneOptions& options) {
  TunedRun run;
  ASSIGN_OR_RETURN(run.inputs, agree_on_inputs(communicator, graph));
  for (const Collective collective : options.collectives) {
    RETURN_IF_ERROR(CollectiveTuner(communicator, options, collective, run).measure());
  }
  return run;
}

void merge_run(Tuning& tuning, TunedRun run) {
  for (TunedRun& older : tuning.runs) {
    if (older.ranks() != run.ranks() || older.inputs.cpus != run.inputs.cpus) continue;
    older = std::move(run);
    return;
  }
  tuning.runs.push_back(std::move(run));
}

}  // namespace gimbal
