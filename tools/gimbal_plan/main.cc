// gimbal-plan: schedules looked at without running them: printed, drawn, verified, simulated on clusters (docs/schedule.md).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "base/parse.h"
#include "collectives/chunk_space.h"
#include "tools/gimbal_plan/goal.h"
#include "tools/gimbal_plan/reports.h"
#include "tools/gimbal_plan/request.h"
#include "tools/gimbal_plan/scaling.h"
#include "tools/gimbal_plan/scaling_plot.h"
#include "tools/gimbal_plan/schedule_drawing.h"
#include "tools/gimbal_topo/drawing.h"
#include "tools/support/output.h"
#include "topology/cost_inputs.h"
#include "topology/discover.h"
#include "topology/load.h"

namespace gimbal {
namespace {

constexpr int kFailedStatus = 1;
constexpr int kUsageStatus = 2;
constexpr Rank kDefaultRanks = 4;
// What fits into the memory of a small machine when all ranks' schedules are looked at together.
constexpr uint64_t kMostStepsTogether = 20'000'000;
constexpr int64_t kMostRails = 1024;

struct Options {
  RequestText request;
  bool json = false;
  std::string svg;
  std::string png;
  std::string rank = "all";
  std::string slots = "8";
  std::string slices = "1";
  std::string node;
  std::string rail;
  std::string rails;
  std::string bytes = "1M";
  std::string dtype = "float";
  bool no_scaling = false;
};

// A Status of INVALID_ARGUMENT is the caller's mistake, others are failures.
int refuse(const Status& status) {
  std::fprintf(stderr, "gimbal-plan: %s\n", status.message().c_str());
  return status.code() == Code::kInvalidArgument ? kUsageStatus : kFailedStatus;
}

Status save_drawing(const Options& options, const std::string& svg) {
  if (!options.svg.empty()) RETURN_IF_ERROR(write_file(options.svg, svg));
  return options.png.empty() ? Status() : write_png(svg, options.png);
}

Result<int64_t> integer(const char* option, const std::string& text, int64_t least, int64_t most) {
  Result<int64_t> value = parse_integer(text, least, most);
  if (value.ok()) return value;
  return Status(Code::kInvalidArgument, std::string(option) + ": " + value.status().message());
}

Result<uint64_t> bytes_of(const Options& options) {
  Result<uint64_t> bytes = parse_message_bytes(options.bytes);
  if (bytes.ok()) return bytes;
  return Status(Code::kInvalidArgument, "--bytes: " + bytes.status().message());
}

Result<double> partial_ratio_of(const Options& options) {
  const std::optional<DType> dtype = parse_dtype(options.dtype);
  if (!dtype) return Status(Code::kInvalidArgument, "--dtype: there is no type \"" + options.dtype + "\"");
  return static_cast<double>(dtype_size(accumulator_type(*dtype, ReduceOp::kSum))) / static_cast<double>(dtype_size(*dtype));
}

// The one algorithm that print and goal are about.
Result<const Algorithm*> single_algorithm(const Request& request) {
  if (request.algorithms.size() == 1) return request.algorithms[0];
  std::string names;
  for (const Algorithm* algorithm : request.algorithms) names += (names.empty() ? "" : ", ") + std::string(algorithm->name);
  return Status(Code::kInvalidArgument, "--algorithm is needed; there is " + names);
}

Status check_size(const Algorithm& algorithm, const Request& request) {
  const uint64_t steps =
      build_schedule(algorithm, request.spec(), 0, request.fusion).steps.size() * static_cast<uint64_t>(request.shape.nranks());
  if (steps <= kMostStepsTogether) return {};
  return {Code::kInvalidArgument, std::string(algorithm.name) + " over " + std::to_string(request.shape.nranks()) +
                                      " ranks has about " + std::to_string(steps) + " steps; allowed: at most " +
                                      std::to_string(kMostStepsTogether) + ", ask for fewer ranks or pieces"};
}

Status print_command(const Options& options) {
  ASSIGN_OR_RETURN(const Request request, parse_request(options.request, kDefaultRanks));
  ASSIGN_OR_RETURN(const Algorithm* algorithm, single_algorithm(request));
  std::vector<Rank> ranks(1);
  if (options.rank != "all") {
    ASSIGN_OR_RETURN(const int64_t rank, integer("--rank", options.rank, 0, request.shape.nranks() - 1));
    ranks[0] = static_cast<Rank>(rank);
  }
  const bool draws = !options.svg.empty() || !options.png.empty();
  if (options.rank == "all" || draws) {
    RETURN_IF_ERROR(check_size(*algorithm, request));
    ranks.resize(static_cast<size_t>(request.shape.nranks()));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  std::vector<Schedule> schedules;
  schedules.reserve(ranks.size());
  for (const Rank rank : ranks) schedules.push_back(build_schedule(*algorithm, request.spec(), rank, request.fusion));
  if (draws) {
    ASSIGN_OR_RETURN(const std::string svg, draw_schedule(request.spec(), schedules, title_of(request, *algorithm)));
    return save_drawing(options, svg);
  }
  return print(options.json ? schedule_json(request, *algorithm, schedules, ranks) : schedule_text(schedules, ranks));
}

Status verify_command(const Options& options) {
  ASSIGN_OR_RETURN(const Request request, parse_request(options.request, kDefaultRanks));
  VerifyOptions window;
  constexpr int64_t kMostSlots = 1 << 20;
  ASSIGN_OR_RETURN(const int64_t slots, integer("--slots", options.slots, 1, kMostSlots));
  ASSIGN_OR_RETURN(const int64_t slices, integer("--slices", options.slices, 1, kMostSlots));
  window.slot_depth = static_cast<uint32_t>(slots);
  window.slices = static_cast<uint32_t>(slices);
  std::vector<Verdict> verdicts;
  std::string wrong;
  for (const Algorithm* algorithm : request.algorithms) {
    RETURN_IF_ERROR(check_size(*algorithm, request));
    verdicts.push_back({algorithm, verify(request.spec(), build_all(*algorithm, request.spec(), request.fusion), window)});
    if (!verdicts.back().verification.ok()) wrong += (wrong.empty() ? "" : ", ") + std::string(algorithm->name);
  }
  RETURN_IF_ERROR(print(options.json ? verdict_json(request, verdicts) : verdict_text(request, verdicts)));
  if (wrong.empty()) return {};
  return {Code::kInternal, "not right with this window: " + wrong};
}

Status goal_command(const Options& options) {
  ASSIGN_OR_RETURN(const Request request, parse_request(options.request, kDefaultRanks));
  ASSIGN_OR_RETURN(const Algorithm* algorithm, single_algorithm(request));
  RETURN_IF_ERROR(check_size(*algorithm, request));
  ASSIGN_OR_RETURN(const uint64_t bytes, bytes_of(options));
  GoalOptions goal;
  ASSIGN_OR_RETURN(goal.partial_ratio, partial_ratio_of(options));
  const Schedule first = build_schedule(*algorithm, request.spec(), 0, request.fusion);
  const uint64_t per_block = first.chunk_count / block_count(request.collective, request.shape.nranks());
  goal.chunk_bytes = (bytes + per_block - 1) / per_block;
  const std::string text = goal_text(*algorithm, request.spec(), request.fusion, goal);
  return print(options.json ? goal_json(request, *algorithm, goal.chunk_bytes, text) : text);
}

Result<Cluster> cluster_of(const Options& options, const Request& request, Rank nodes) {
  // A file that cannot be read is no mistake in the arguments.
  Result<TopologyGraph> graph = options.node.empty() ? discover_topology() : load_topology_file(options.node);
  if (!graph.ok()) return Status(Code::kSystem, graph.status().message());
  Placement placement;
  placement.nodes = nodes;
  placement.ranks = nodes * request.shape.slices();
  const auto gpus = static_cast<Rank>(nodes_of_kind(*graph, NodeKind::kGpu).size());
  placement.on_gpus = gpus >= request.shape.slices();
  if (!options.rail.empty()) {
    Result<LinkCost> rail = parse_rail(options.rail);
    if (!rail.ok()) return Status(Code::kInvalidArgument, "--rail: " + rail.status().message());
    placement.network = *rail;
  }
  ASSIGN_OR_RETURN(CostInputs inputs, cost_inputs(*graph, placement));
  if (!options.rails.empty()) {
    ASSIGN_OR_RETURN(const int64_t rails, integer("--rails", options.rails, 1, kMostRails));
    inputs.rails = static_cast<int32_t>(rails);
  }
  return Cluster(std::move(inputs), nodes);
}

Status simulate_command(const Options& options) {
  ASSIGN_OR_RETURN(const Request request, parse_request(options.request, kDefaultRanks));
  if (!options.request.node_sizes.empty()) {
    return {Code::kInvalidArgument, "--node-sizes: simulate is for nodes of one size; give --nodes and --ranks-per-node"};
  }
  Operation operation;
  operation.collective = request.collective;
  ASSIGN_OR_RETURN(operation.bytes, bytes_of(options));
  ASSIGN_OR_RETURN(operation.partial_ratio, partial_ratio_of(options));
  operation.channels = request.channels;
  operation.fusion = request.fusion;
  operation.pieces = request.pieces;
  const Rank nodes = request.shape.nodes();
  ASSIGN_OR_RETURN(const Cluster full, cluster_of(options, request, nodes));
  std::vector<Figure> figures;
  for (const Rank point : options.no_scaling ? std::vector<Rank>{nodes} : scaling_points(nodes)) {
    const Cluster cluster(full.inputs(), point);
    operation.root = std::min(request.root, cluster.shape().nranks() - 1);
    for (const Algorithm* algorithm : request.algorithms) {
      ASSIGN_OR_RETURN(const Figure figure, evaluate(*algorithm, cluster, operation));
      figures.push_back(figure);
    }
  }
  if (options.svg.empty() && options.png.empty()) {
    return print(options.json ? scaling_json(full, operation, figures) : scaling_text(full, operation, figures));
  }
  const std::string title = std::string(collective_name(request.collective)) + " of " + options.bytes;
  return save_drawing(options, draw_scaling(figures, title, cluster_sentence(full)));
}

void add_request_options(CLI::App& command, Options& options) {
  RequestText& request = options.request;
  command.add_option("--collective", request.collective, "all_reduce (the default), reduce_scatter, all_gather, ...");
  command.add_option("--algorithm", request.algorithm, "A schedule's name");
  command.add_option("--ranks", request.ranks, "How many ranks (4)");
  command.add_option("--nodes", request.nodes, "On how many nodes (1)");
  command.add_option("--ranks-per-node", request.ranks_per_node, "On each node");
  command.add_option("--node-sizes", request.node_sizes, "Nodes of different sizes: 8,8,6");
  command.add_option("--root", request.root, "Of a rooted collective (0)");
  command.add_option("--channels", request.channels, "Lanes beside each other: 1 to 255 (1)");
  command.add_option("--pieces", request.pieces, "Parts of a lane that follow one another (1; simulate: the best of several)");
  command.add_flag("--unfused", request.unfused, "Without forwarding while receiving");
  command.add_flag("--json", options.json, "Print JSON");
}

int run(int argc, char** argv) {
  CLI::App app("Schedules of collectives, looked at without running them.", "gimbal-plan");
  Options options;
  app.set_version_flag("--version", std::string("gimbal-plan ") + GIMBAL_TOOL_VERSION);
  app.require_subcommand(1);
  CLI::App* print = app.add_subcommand("print", "The steps of a rank, or of all");
  CLI::App* verify = app.add_subcommand("verify", "Whether all ranks come to the right result; exit status 0 or 1");
  CLI::App* simulate = app.add_subcommand("simulate", "Time, bandwidth and bytes per link on a cluster, from one node to many");
  CLI::App* goal = app.add_subcommand("goal", "The schedule as GOAL text for LogGOPSim");
  for (CLI::App* command : {print, verify, simulate, goal}) add_request_options(*command, options);
  for (CLI::App* command : {print, simulate}) {
    command->add_option("--svg", options.svg, "Draw into this file instead of printing");
    command->add_option("--png", options.png, "The same as PNG (by rsvg-convert)");
  }
  for (CLI::App* command : {simulate, goal}) {
    command->add_option("--bytes", options.bytes, "Of the vector, or of one rank's block: 1M (the default), 1G, ...");
    command->add_option("--dtype", options.dtype, "Decides how many bytes partial sums have: float, bfloat16, ...");
  }
  print->add_option("--rank", options.rank, "Of one rank only");
  verify->add_option("--slots", options.slots, "Slots in flight between two ranks (8)");
  verify->add_option("--slices", options.slices, "Slots that one step needs (1)");
  simulate->add_option("--node", options.node, "One node: Gimbal's JSON, hwloc's XML or NCCL's topology XML (this machine)");
  simulate->add_option("--rail", options.rail,
                       "One rail between nodes, bandwidth, latency, CPU time per message: 50GB/s,2us,0.5us (as the NICs say)");
  simulate->add_option("--rails", options.rails, "Rails of a node (as many as it has NICs)");
  simulate->add_flag("--no-scaling", options.no_scaling, "Only the full size, not 1, 2, 4, ... nodes");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {  // --help, --version
    return app.exit(asked_for);
  } catch (const CLI::ParseError& error) {
    return refuse({Code::kInvalidArgument, std::string(error.what()) + " (see gimbal-plan --help)"});
  }
  const Status status = print->parsed()      ? print_command(options)
                        : verify->parsed()   ? verify_command(options)
                        : simulate->parsed() ? simulate_command(options)
                                             : goal_command(options);
  return status.ok() ? 0 : refuse(status);
}

}  // namespace
}  // namespace gimbal

int main(int argc, char** argv) { return gimbal::run(argc, argv); }
