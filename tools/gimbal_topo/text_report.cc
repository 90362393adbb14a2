#include "tools/gimbal_topo/text_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "tools/gimbal_topo/text_tree.h"
#include "tools/gimbal_topo/words.h"
#include "topology/degraded.h"
#include "topology/orders.h"

namespace gimbal {
namespace {

// A wider matrix does not fit a screen.
constexpr size_t kMostColumns = 24;
constexpr size_t kMostTiesListed = 4;
constexpr size_t kMostNicsListed = 16;
constexpr size_t kMostChannelsListed = 4;

class ReportWriter {
 public:
  explicit ReportWriter(const TopologyGraph& graph)
      : graph_(graph),
        paths_(graph),
        gpus_(nodes_of_kind(graph, NodeKind::kGpu)),
        nics_(nodes_of_kind(graph, NodeKind::kNic)) {}

  std::string write(const std::string& origin) {
    write_head(origin);
    for (const NodeId machine : nodes_of_kind(graph_, NodeKind::kMachine)) text_ += "\n" + text_tree(graph_, machine);
    write_gpus();
    write_nics();
    write_matrix();
    write_channels();
    write_degraded();
    return std::move(text_);
  }

 private:
  void line(const std::string& text) { text_ += text.substr(0, text.find_last_not_of(' ') + 1) + "\n"; }

  void write_head(const std::string& origin) {
    const TopologyNode& machine = graph_.nodes[0];
    line(origin + (machine.name.empty() ? "" : ": " + machine.name) +
         (machine.model.empty() ? "" : " (" + machine.model + ")"));
    std::string counts;
    const auto add = [&](NodeKind kind, const std::string& noun, bool always) {
      const size_t count = nodes_of_kind(graph_, kind).size();
      if (count > 0 || always) counts += (counts.empty() ? "" : ", ") + counted(count, noun);
    };
    add(NodeKind::kPackage, "package", false);
    add(NodeKind::kNuma, "NUMA node", false);
    add(NodeKind::kCore, "core", false);
    add(NodeKind::kPu, "PU", true);
    add(NodeKind::kSwitch, "PCI switch", false);
    add(NodeKind::kNvSwitch, "NVSwitch", false);
    add(NodeKind::kGpu, "GPU", true);
    add(NodeKind::kNic, "NIC", true);
    line("  " + counts);
    const std::vector<int64_t> allowed = pu_numbers(graph_, [&](NodeId id) { return graph_.nodes[id].allowed; });
    const std::string of_all =
        std::to_string(allowed.size()) + " of " + counted(nodes_of_kind(graph_, NodeKind::kPu).size(), "PU");
    char quota[64] = "no CPU quota";
    if (std::isfinite(graph_.quota_cpus)) std::snprintf(quota, sizeof(quota), "CPU quota %.3g CPUs", graph_.quota_cpus);
    if (graph_.is_this_machine) {
      line("  allowed to this process: " + of_all + " (" + ranges(allowed) + "), " + quota);
    } else {
      line("  allowed there: " + of_all + " (" + ranges(allowed) + "); a file binds nothing here");
    }
    write_cpu_kinds();
  }

  void write_cpu_kinds() {
    if (graph_.cpu_kinds.size() < 2) return;
    line("  " + std::to_string(graph_.cpu_kinds.size()) + " kinds of PUs:");
    for (size_t kind = 0; kind < graph_.cpu_kinds.size(); ++kind) {
      const CpuKind& facts = graph_.cpu_kinds[kind];
      const auto is_of_kind = [&](NodeId id) { return graph_.nodes[id].cpu_kind == static_cast<int32_t>(kind); };
      std::string text = "    kind " + std::to_string(kind) + (facts.name.empty() ? "" : " " + facts.name) + ": PUs " +
                         ranges(pu_numbers(graph_, is_of_kind));
      if (facts.max_mhz > 0) text += ", up to " + std::to_string(facts.max_mhz) + " MHz";
      line(text);
    }
  }

  std::string address(NodeId id) const { return graph_.nodes[id].bus_id ? format(*graph_.nodes[id].bus_id) : "no bus id"; }

  // "NIC 0 0101:00:00.0 and NIC 1 0102:00:00.0 (PIX, a tie)".
  std::string nearest_text(NodeId gpu) const {
    const std::vector<NodeId> nearest = paths_.nearest_nics(gpu);
    if (nearest.empty()) return "no NIC";
    std::string text;
    for (size_t i = 0; i < std::min(nearest.size(), kMostTiesListed); ++i) {
      text += (i == 0 ? "" : ", ") + label(graph_, nearest[i]) + " " + address(nearest[i]);
    }
    if (nearest.size() > kMostTiesListed) text += ", ... (" + std::to_string(nearest.size()) + " in all)";
    const Path path = paths_.find(gpu, nearest[0]);
    text.append(" (").append(path_class_name(path.path_class)).append(nearest.size() > 1 ? ", a tie)" : ")");
    return text;
  }

  void write_gpus() {
    if (gpus_.empty()) return;
    line("\nGPUs (by bus id" + std::string(has_file_numbers() ? ", numbered as the file does)" : ")"));
    for (const NodeId gpu : gpus_) {
      const TopologyNode& node = graph_.nodes[gpu];
      line("  " + label(graph_, gpu) + "  " + address(gpu) + "  NUMA " + numa_text(node.numa) +
           (node.name.empty() ? "" : "  " + node.name) + (node.model.empty() ? "" : "  " + node.model) +
           "  nearest: " + nearest_text(gpu));
    }
  }

  bool has_file_numbers() const {
    return std::all_of(gpus_.begin(), gpus_.end(), [&](NodeId gpu) { return graph_.nodes[gpu].os_index >= 0; });
  }

  void write_nics() {
    if (nics_.empty()) return;
    line("\nNICs");
    for (size_t i = 0; i < std::min(nics_.size(), kMostNicsListed); ++i) {
      const TopologyNode& node = graph_.nodes[nics_[i]];
      std::string text = "  " + label(graph_, nics_[i]) + "  " + address(nics_[i]) + "  NUMA " + numa_text(node.numa);
      for (const NetPort& port : node.ports) text += "  " + port_text(port);
      line(text);
    }
    if (nics_.size() > kMostNicsListed)
      line("  ... and " + std::to_string(nics_.size() - kMostNicsListed) + " more (--json has all)");
  }

  // The rows and columns: GPUs and NICs; NUMA nodes and NICs on a machine without GPUs; GPUs alone when that is too wide.
  std::vector<NodeId> matrix_members() const {
    std::vector<NodeId> members = gpus_.empty() ? nodes_of_kind(graph_, NodeKind::kNuma) : gpus_;
    if (members.size() + nics_.size() <= kMostColumns) members.insert(members.end(), nics_.begin(), nics_.end());
    return members;
  }

  static std::string cell(const std::string& text) {
    constexpr size_t kWidth = 5;
    return text.size() < kWidth ? text + std::string(kWidth - text.size(), ' ') : text;
  }

  // "G0", "N3", "M1".
  std::string short_label(NodeId id) const {
    const TopologyNode& node = graph_.nodes[id];
    if (node.kind == NodeKind::kNuma) return "M" + (node.os_index < 0 ? "?" : std::to_string(node.os_index));
    return (node.kind == NodeKind::kGpu ? "G" : "N") + std::to_string(node.index);
  }

  void write_matrix() {
    const std::vector<NodeId> members = matrix_members();
    if (members.size() < 2) return;
    if (members.size() > kMostColumns)
      return line("\nPaths: " + std::to_string(members.size()) + " devices are too many for a table");
    line("\nPaths (G: GPU, N: NIC, M: NUMA node)");
    std::string head = "  " + cell("");
    for (const NodeId id : members) head += cell(short_label(id));
    line(head);
    std::map<PathClass, std::pair<double, double>> widths;
    for (const NodeId from : members) {
      std::string row = "  " + cell(short_label(from));
      for (const NodeId to : members) {
        const Path path = paths_.find(from, to);
        row += cell(std::string(path_class_name(path.path_class)));
        if (path.bandwidth_gbps <= 0) continue;
        auto& [least, most] = widths.try_emplace(path.path_class, path.bandwidth_gbps, path.bandwidth_gbps).first->second;
        least = std::min(least, path.bandwidth_gbps);
        most = std::max(most, path.bandwidth_gbps);
      }
      line(row);
    }
    std::string legend;
    for (const auto& [path_class, width] : widths) {
      legend.append(legend.empty() ? "  " : ", ").append(path_class_name(path_class)).append(" ");
      if (bandwidth(width.first) != bandwidth(width.second)) legend += bandwidth(width.first) + " to ";
      legend += bandwidth(width.second);
    }
    if (!legend.empty()) line(legend + " a direction, at most");
  }

  void write_channels() {
    if (gpus_.size() < 2) return;
    const std::vector<ChannelOrder> orders = channel_orders(graph_, paths_);
    line("\nRings");
    for (size_t i = 0; i < std::min(orders.size(), kMostChannelsListed); ++i) {
      std::string text = "  channel " + std::to_string(i) + ": GPU";
      for (const NodeId gpu : orders[i].devices) text += " " + std::to_string(graph_.nodes[gpu].index);
      if (orders[i].nic != kNoNode) text += ", rail " + label(graph_, orders[i].nic);
      line(text);
    }
    if (orders.size() > kMostChannelsListed)
      line("  ... " + std::to_string(orders.size()) + " channels in all (--json has them)");
  }

  void write_degraded() {
    const std::vector<Degraded> all = find_degraded(graph_);
    line(all.empty() ? "\nNothing is known to be degraded" : "\nDegraded");
    for (const Degraded& found : all) line("  " + found.what + "\n    remedy: " + found.remedy);
  }

  const TopologyGraph& graph_;
  PathFinder paths_;
  std::vector<NodeId> gpus_;
  std::vector<NodeId> nics_;
  std::string text_;
};

}  // namespace

std::string text_report(const TopologyGraph& graph, const std::string& origin) { return ReportWriter(graph).write(origin); }

}  // namespace gimbal
