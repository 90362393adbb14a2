// gimbal-topo: the machine in one screen, and what is wrong with it (docs/topology.md).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "tools/gimbal_topo/json_report.h"
#include "tools/gimbal_topo/text_report.h"
#include "topology/discover.h"
#include "topology/load.h"

namespace gimbal {
namespace {

constexpr int kFailedStatus = 1;
constexpr int kUsageStatus = 2;

struct Options {
  std::string load;
  std::string save;
  bool json = false;
};

int refuse(const std::string& sentence, int status) {
  std::fprintf(stderr, "gimbal-topo: %s\n", sentence.c_str());
  return status;
}

Status show(const Options& options) {
  ASSIGN_OR_RETURN(const TopologyGraph graph, options.load.empty() ? discover_topology() : load_topology_file(options.load));
  if (!options.save.empty()) RETURN_IF_ERROR(save_topology_file(graph, options.save));
  const std::string text =
      options.json ? json_report(graph) : text_report(graph, options.load.empty() ? "this machine" : options.load);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return system_error("standard output", errno);
  return {};
}

int run(int argc, char** argv) {
  CLI::App app(
      "Shows the machine: its tree, what this process may use, GPUs and NICs, how they reach each other, what is degraded.",
      "gimbal-topo");
  Options options;
  app.add_option("--load,--file,--xml", options.load, "Another machine: Gimbal's JSON, hwloc's XML or NCCL's topology XML");
  app.add_option("--save", options.save, "Write the machine to this file, as JSON for --load");
  app.add_flag("--json", options.json, "Print JSON: the graph, nearest NICs, paths, rings");
  app.set_version_flag("--version", std::string("gimbal-topo ") + GIMBAL_TOOL_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {  // --help, --version
    return app.exit(asked_for);
  } catch (const CLI::ParseError& error) {
    return refuse(std::string(error.what()) + " (see gimbal-topo --help)", kUsageStatus);
  }
  const Status shown = show(options);
  return shown.ok() ? 0 : refuse(shown.message(), kFailedStatus);
}

}  // namespace
}  // namespace gimbal

int main(int argc, char** argv) { return gimbal::run(argc, argv); }
