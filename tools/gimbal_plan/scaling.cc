#include "tools/gimbal_plan/scaling.h"

#include <algorithm>
#include <map>
#include <string>

#include "collectives/accesses.h"
#include "collectives/chunk_space.h"
#include "collectives/cost.h"

namespace gimbal {
namespace {

constexpr double kBytesPerUs = 1e3;  // of one GB/s
// Pieces that are tried, and the most steps that more than one piece may take: what they gain over coarser ones is small.
constexpr uint32_t kPieces[] = {1, 4, 16};
constexpr uint64_t kMostStepsInPieces = 2'000'000;

CollectiveSpec spec_of(const Cluster& cluster, const Operation& operation, uint32_t pieces) {
  return {.collective = schedule_collective(operation.collective),
          .nranks = cluster.shape().nranks(),
          .root = operation.root,
          .channels = operation.channels,
          .pieces = pieces,
          .nodes = &cluster.shape()};
}

struct Prepared {
  CollectiveSpec spec;
  SimulationInput input;
  uint64_t steps;  // of all ranks, as of the first
};

Prepared prepare(const Algorithm& algorithm, const Cluster& cluster, const Operation& operation, uint32_t pieces) {
  const CollectiveSpec spec = spec_of(cluster, operation, pieces);
  const Schedule first = build_schedule(algorithm, spec, 0, operation.fusion);
  // All chunks are as long as the longest.
  const uint32_t chunks_per_block = first.chunk_count / block_count(spec.collective, spec.nranks);
  const size_t chunk_bytes = (operation.bytes + chunks_per_block - 1) / chunks_per_block;
  const double blocks = has_blocks(spec.collective) ? spec.nranks : 1;
  const double touched = static_cast<double>(operation.bytes) * (1 + blocks);
  Prepared prepared = {spec, cluster.simulation_input(chunk_bytes, touched),
                       first.steps.size() * static_cast<uint64_t>(spec.nranks)};
  prepared.input.partial_ratio = operation.partial_ratio;
  return prepared;
}

bool one_stands_for_all(const Algorithm& algorithm, const Cluster& cluster) {
  return algorithm.turns && cluster.shape().nodes() > 2;
}

// What leaves one machine's ranks at the speed of what it leaves by, and each rank's messages after one another: no rank is
// done before.
double bound_us(const Algorithm& algorithm, const Cluster& cluster, const Operation& operation, const Prepared& prepared,
                ClusterLoad& load) {
  std::map<int32_t, uint64_t> parts;
  std::map<std::pair<Rank, Rank>, uint64_t> pairs;
  double busiest = 0;
  for (const Rank rank : cluster.shape().members(0)) {
    std::vector<double> channels(operation.channels);
    for (const Step& step : algorithm.build(prepared.spec, rank).steps) {
      const Rank to = sends_to(step);
      if (to == kNoRank) continue;
      const LinkCost cost = prepared.input.link(rank, to);
      const double ratio = step.sent == Payload::kPartial ? operation.partial_ratio : 1;
      const auto bytes = static_cast<uint64_t>(static_cast<double>(step.count * prepared.input.chunk_bytes(0)) * ratio);
      const double wire = static_cast<double>(bytes) * operation.channels / (cost.bandwidth_gbps * kBytesPerUs);
      channels[step.channel] += cost.overhead_us + wire;
      const int32_t part = prepared.input.passage(rank, to).sender_part;
      if (part != kNoPart) parts[part] += bytes;
      if (cluster.shape().node_of(to) == 0) load.pair_bytes = std::max(load.pair_bytes, pairs[{rank, to}] += bytes);
      if (cluster.shape().node_of(to) != 0) load.rail_bytes = std::max(load.rail_bytes, parts[part]);
    }
    busiest = std::max(busiest, *std::max_element(channels.begin(), channels.end()));
  }
  for (const auto& [part, bytes] : parts) {
    busiest =
        std::max(busiest, static_cast<double>(bytes) / (prepared.input.part_gbps[static_cast<size_t>(part)] * kBytesPerUs));
  }
  return busiest;
}

Result<Figure> evaluate_prepared(Method method, const Algorithm& algorithm, const Cluster& cluster, const Operation& operation,
                                 Prepared prepared) {
  Figure figure = {.algorithm = &algorithm,
                   .nodes = cluster.shape().nodes(),
                   .ranks = cluster.shape().nranks(),
                   .pieces = prepared.spec.pieces,
                   .method = method};
  if (method == Method::kBound) {
    figure.time_us = bound_us(algorithm, cluster, operation, prepared, figure.load);
  } else {
    if (method == Method::kOneStandsForAll) prepared.input.period = cluster.inputs().ranks_per_node;
    ASSIGN_OR_RETURN(const Simulation simulation, simulate(algorithm, prepared.spec, operation.fusion, prepared.input));
    figure.time_us = simulation.time_us;
    figure.load = load_of(cluster, simulation, prepared.input.period);
  }
  figure.bus_gbps = bus_bandwidth_gbps(prepared.spec.collective, figure.ranks, operation.bytes, figure.time_us);
  return figure;
}

}  // namespace

std::string_view method_name(Method method) {
  switch (method) {
    case Method::kSimulated:
      return "simulated";
    case Method::kOneStandsForAll:
      return "one node for all";
    case Method::kBound:
      return "at least";
  }
  return "";
}

Result<Figure> evaluate_by(Method method, const Algorithm& algorithm, const Cluster& cluster, const Operation& operation,
                           uint32_t pieces) {
  const CollectiveSpec spec = spec_of(cluster, operation, pieces);
  if (std::string why = admits(algorithm, spec); !why.empty()) {
    return Status(Code::kInvalidArgument, std::string(algorithm.name) + ": " + why);
  }
  return evaluate_prepared(method, algorithm, cluster, operation, prepare(algorithm, cluster, operation, pieces));
}

Result<Figure> evaluate(const Algorithm& algorithm, const Cluster& cluster, const Operation& operation) {
  std::optional<Figure> best;
  for (const uint32_t tried : kPieces) {
    const uint32_t pieces = operation.pieces.value_or(tried);
    if (std::string why = admits(algorithm, spec_of(cluster, operation, pieces)); !why.empty()) {
      if (best) break;
      return Status(Code::kInvalidArgument, std::string(algorithm.name) + ": " + why);
    }
    Prepared prepared = prepare(algorithm, cluster, operation, pieces);
    const bool turns = one_stands_for_all(algorithm, cluster);
    if (turns) prepared.steps /= static_cast<uint64_t>(cluster.shape().nodes());
    if (best && prepared.steps > kMostStepsInPieces) break;
    const Method method = prepared.steps > kMostSteps ? Method::kBound : turns ? Method::kOneStandsForAll : Method::kSimulated;
    ASSIGN_OR_RETURN(const Figure figure, evaluate_prepared(method, algorithm, cluster, operation, std::move(prepared)));
    if (!best || figure.time_us < best->time_us) best = figure;
    if (operation.pieces || method == Method::kBound) break;
  }
  return *best;
}

std::vector<Rank> scaling_points(Rank nodes) {
  std::vector<Rank> points;
  for (int64_t point = 1; point < nodes; point *= 2) points.push_back(static_cast<Rank>(point));
  points.push_back(nodes);
  return points;
}

}  // namespace gimbal
