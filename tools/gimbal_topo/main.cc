// gimbal-topo: the machine in one screen, and what is wrong with it (docs/topology.md).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/parse.h"
#include "tools/gimbal_topo/checks.h"
#include "tools/gimbal_topo/drawing.h"
#include "tools/gimbal_topo/explain.h"
#include "tools/gimbal_topo/json_report.h"
#include "tools/gimbal_topo/text_report.h"
#include "tools/gimbal_topo/tune.h"
#include "tools/support/output.h"
#include "topology/discover.h"
#include "topology/graph_json.h"
#include "topology/load.h"

namespace gimbal {
namespace {

constexpr int kFailedStatus = 1;
constexpr int kUsageStatus = 2;
constexpr int64_t kMostRanks = 100'000;

struct Options {
  std::string load;
  std::string save;
  std::string svg;
  std::string png;
  bool json = false;
  std::string ranks;
};

int refuse(const std::string& sentence, int status) {
  std::fprintf(stderr, "gimbal-topo: %s\n", sentence.c_str());
  return status;
}

Status show(const Options& options) {
  ASSIGN_OR_RETURN(const TopologyGraph graph, options.load.empty() ? discover_topology() : load_topology_file(options.load));
  const std::string origin = options.load.empty() ? "this machine" : options.load;
  if (!options.save.empty()) RETURN_IF_ERROR(write_file(options.save, graph_to_json(graph)));
  if (!options.svg.empty() || !options.png.empty()) {
    const std::string svg = draw_svg(graph, origin);
    if (!options.svg.empty()) RETURN_IF_ERROR(write_file(options.svg, svg));
    if (!options.png.empty()) RETURN_IF_ERROR(write_png(svg, options.png));
    return {};
  }
  return print(options.json ? json_report(graph) : text_report(graph, origin));
}

int check(const Options& options) {
  int64_t ranks = 0;
  if (!options.ranks.empty()) {
    const Result<int64_t> parsed = parse_integer(options.ranks, 1, kMostRanks);
    if (!parsed.ok()) return refuse("--ranks: " + parsed.status().message(), kUsageStatus);
    ranks = *parsed;
  }
  Result<TopologyGraph> graph = discover_topology();
  if (!graph.ok()) return refuse(graph.status().message(), kUsageStatus);
  const std::vector<CheckLine> lines = judge(gather_facts(std::move(graph).value(), ranks, ""));
  if (const Status printed = print(check_report(lines)); !printed.ok()) return refuse(printed.message(), kUsageStatus);
  return static_cast<int>(worst_of(lines));
}

int print_explanation(const ExplainCommand& command) {
  const Result<std::string> text = explain(command);
  if (!text.ok()) return refuse(text.status().message(), kFailedStatus);
  const Status printed = print(*text);
  return printed.ok() ? 0 : refuse(printed.message(), kFailedStatus);
}

CLI::App* add_explain(CLI::App& app, ExplainCommand& command) {
  CLI::App* sub = app.add_subcommand("explain", "Which algorithm is taken at each size, what it is predicted to cost, and why");
  sub->add_option("--collective", command.collective, "all_reduce, all_gather, ... (all_reduce)");
  sub->add_option("--ranks", command.ranks, "Ranks in all: 2 to 100000 (one per allowed CPU)");
  sub->add_option("--nodes", command.nodes, "Machines like this one that they are spread over (1)");
  sub->add_option("--bytes", command.bytes, "A size per rank, or two with .. between them (8..1G)");
  sub->add_option("--datatype", command.datatype, "Type of the elements (float)");
  sub->add_option("--load", command.load, "Another machine: Gimbal's JSON, hwloc's XML or NCCL's topology XML");
  sub->add_flag("--json", command.json, "Print JSON");
  return sub;
}

CLI::App* add_tune(CLI::App& app, TuneCommand& command) {
  CLI::App* sub = app.add_subcommand("tune", "Measures this machine (seconds) and keeps what it finds for the library");
  sub->add_option("--ranks", command.ranks, "Numbers of ranks to measure, as 2,4,8 (powers of two up to the CPUs, and to 8)");
  sub->add_option("--collective", command.collectives, "What to measure, as all_reduce,all_gather (all of them)");
  sub->add_option("--output", command.output, "The file to keep it in (where the library looks: GIMBAL_TUNE_CACHE)");
  return sub;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Shows the machine: its tree, what this process may use, GPUs and NICs, how they reach each other, what is degraded.",
      "gimbal-topo");
  Options options;
  app.add_option("--load,--file,--xml", options.load, "Another machine: Gimbal's JSON, hwloc's XML or NCCL's topology XML");
  app.add_option("--save", options.save, "Write the machine to this file, as JSON for --load");
  app.add_option("--svg", options.svg, "Draw the machine into this file instead of printing it");
  app.add_option("--png", options.png, "The same as PNG (by rsvg-convert)");
  app.add_flag("--json", options.json, "Print JSON: the graph, nearest NICs, paths, rings");
  app.set_version_flag("--version", std::string("gimbal-topo ") + GIMBAL_TOOL_VERSION);
  CLI::App* checking =
      app.add_subcommand("check", "What here would fail or be slow; exit status 0: nothing, 1: slow, 2: fails");
  checking->add_option("--ranks", options.ranks, "How many ranks will run here: 1 to 100000 (one per allowed PU)");
  ExplainCommand explained;
  const CLI::App* explaining = add_explain(app, explained);
  TuneCommand tuned;
  const CLI::App* tuning = add_tune(app, tuned);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {  // --help, --version
    return app.exit(asked_for);
  } catch (const CLI::ParseError& error) {
    return refuse(std::string(error.what()) + " (see gimbal-topo --help)", kUsageStatus);
  }
  if (checking->parsed()) return check(options);
  if (explaining->parsed()) return print_explanation(explained);
  if (tuning->parsed()) return run_tune(tuned, argc, argv);
  const Status shown = show(options);
  return shown.ok() ? 0 : refuse(shown.message(), kFailedStatus);
}

}  // namespace
}  // namespace gimbal

int main(int argc, char** argv) { return gimbal::run(argc, argv); }
