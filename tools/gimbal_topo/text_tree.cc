#include "tools/gimbal_topo/text_tree.h"

#include <algorithm>
#include <map>
#include <set>

#include "tools/gimbal_topo/words.h"

namespace gimbal {
namespace {

// More devices of a kind side by side than this are counted instead of listed.
constexpr size_t kMostListed = 10;
constexpr size_t kListedOfMany = 3;

class TreeWriter {
 public:
  TreeWriter(const TopologyGraph& graph, NodeId machine) : graph_(graph), machine_(machine), children_(graph.nodes.size()) {
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
      if (graph.nodes[id].parent != kNoNode) children_[graph.nodes[id].parent].push_back(id);
      if (machine_of(graph, id) != machine) continue;
      if (graph.nodes[id].kind == NodeKind::kHostBridge) bridges_.push_back(id);
      // Devices that hang off no bridge are shown as bridges are.
      const NodeId parent = graph.nodes[id].parent;
      const bool is_device = graph.nodes[id].kind == NodeKind::kNic || graph.nodes[id].kind == NodeKind::kNvSwitch;
      if (is_device && graph.nodes[parent].kind < NodeKind::kHostBridge) bridges_.push_back(id);
    }
  }

  std::string write() {
    for (const NodeId package : of_machine(NodeKind::kPackage)) {
      line(0, package_text(package));
      for (const NodeId numa : of_machine(NodeKind::kNuma)) {
        if (ancestor_of_kind(graph_, numa, NodeKind::kPackage) == package) write_numa(numa, 1);
      }
    }
    for (const NodeId numa : of_machine(NodeKind::kNuma)) {
      if (ancestor_of_kind(graph_, numa, NodeKind::kPackage) == kNoNode) write_numa(numa, 0);
    }
    std::vector<NodeId> rest;
    std::copy_if(bridges_.begin(), bridges_.end(), std::back_inserter(rest), [&](NodeId id) { return !shown_.contains(id); });
    const bool has_devices = std::any_of(rest.begin(), rest.end(), [&](NodeId id) { return is_worth_a_line(id); });
    if (has_devices) line(0, "Not below a NUMA node");
    if (has_devices) write_devices(rest, 1);
    return text_;
  }

 private:
  void line(size_t depth, const std::string& text) { text_ += std::string(2 + 2 * depth, ' ') + text + "\n"; }

  std::vector<NodeId> of_machine(NodeKind kind) const {
    std::vector<NodeId> ids = nodes_of_kind(graph_, kind);
    std::erase_if(ids, [&](NodeId id) { return machine_of(graph_, id) != machine_; });
    return ids;
  }

  std::string package_text(NodeId package) const {
    const TopologyNode& node = graph_.nodes[package];
    const auto is_inside = [&](NodeId id) { return ancestor_of_kind(graph_, id, NodeKind::kPackage) == package; };
    const std::vector<NodeId> cores = of_machine(NodeKind::kCore);
    std::string text = "Package " + std::to_string(node.os_index) + (node.model.empty() ? "" : "  " + node.model) + ": " +
                       counted(static_cast<size_t>(std::count_if(cores.begin(), cores.end(), is_inside)), "core") + ", PUs " +
                       ranges(pu_numbers(graph_, is_inside));
    // Caches by level: how many of which size.
    std::map<std::pair<std::string, uint64_t>, size_t> caches;
    for (const NodeId cache : of_machine(NodeKind::kCache)) {
      if (is_inside(cache)) ++caches[{graph_.nodes[cache].name, graph_.nodes[cache].bytes}];
    }
    for (const auto& [cache, count] : caches) {
      text += ", " + (count > 1 ? std::to_string(count) + " x " : "") + cache.first + " " + binary_size(cache.second);
    }
    return text;
  }

  void write_numa(NodeId id, size_t depth) {
    const TopologyNode& node = graph_.nodes[id];
    // A PU's home is the first of the NUMA nodes that it is near; the others there are memory only.
    std::vector<int64_t> homed;
    std::vector<int64_t> near_pus;
    for (const NodeId pu : of_machine(NodeKind::kPu)) {
      const std::vector<int32_t>& near = graph_.nodes[pu].numa;
      if (near.empty() ? node.numa.empty() : near[0] == node.os_index) homed.push_back(graph_.nodes[pu].os_index);
      if (std::find(near.begin(), near.end(), node.os_index) != near.end()) near_pus.push_back(graph_.nodes[pu].os_index);
    }
    const std::string number = node.os_index < 0 ? "unknown" : std::to_string(node.os_index);
    std::string text = "NUMA " + number + (node.model.empty() ? "" : "  " + node.model);
    if (node.bytes > 0) text += "  " + binary_size(node.bytes);
    if (!homed.empty()) {
      text += ": " + counted(homed.size(), "PU") + " (" + ranges(homed) + ")";
    } else {
      text += ": memory only" + (near_pus.empty() ? "" : ", near PUs " + ranges(near_pus));
    }
    line(depth, text);
    std::vector<NodeId> here;
    for (const NodeId bridge : bridges_) {
      const std::vector<int32_t>& near = graph_.nodes[bridge].numa;
      const bool fits = near.empty() ? node.numa.empty() : near[0] == node.os_index;
      if (fits && shown_.insert(bridge).second) here.push_back(bridge);
    }
    write_devices(here, depth + 1);
  }

  bool is_worth_a_line(NodeId id) const { return graph_.nodes[id].kind != NodeKind::kHostBridge || !children_[id].empty(); }

  void write_devices(const std::vector<NodeId>& ids, size_t depth) {
    std::map<NodeKind, size_t> counts;
    for (const NodeId id : ids) ++counts[graph_.nodes[id].kind];
    std::map<NodeKind, size_t> written;
    for (const NodeId id : ids) {
      const NodeKind kind = graph_.nodes[id].kind;
      if (kind == NodeKind::kHostBridge) {
        if (!children_[id].empty()) line(depth, "Host bridge");
        write_devices(children_[id], depth + 1);
        continue;
      }
      const bool is_many = counts[kind] > kMostListed && children_[id].empty();
      if (is_many && written[kind]++ >= kListedOfMany) continue;
      line(depth, device_text(id));
      write_devices(children_[id], depth + 1);
      if (is_many && written[kind] == kListedOfMany) {
        std::string noun = label(graph_, id);
        noun = noun.substr(0, noun.find(' '));
        line(depth, "... and " + counted(counts[kind] - kListedOfMany, "more " + noun));
      }
    }
  }

  std::string device_text(NodeId id) const {
    const TopologyNode& node = graph_.nodes[id];
    std::string text = label(graph_, id);
    if (node.kind == NodeKind::kSwitch) return text;
    if (node.bus_id) text += "  " + format(*node.bus_id);
    if (!node.name.empty() && node.ports.empty()) text += "  " + node.name;
    if (!node.model.empty()) text += "  " + node.model;
    for (const NetPort& port : node.ports) text += "  " + port_text(port);
    return text;
  }

  const TopologyGraph& graph_;
  NodeId machine_;
  std::vector<std::vector<NodeId>> children_;
  std::vector<NodeId> bridges_;
  std::set<NodeId> shown_;
  std::string text_;
};

}  // namespace

std::string text_tree(const TopologyGraph& graph, NodeId machine) { return TreeWriter(graph, machine).write(); }

}  // namespace gimbal
