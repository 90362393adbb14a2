#include "topology/graph.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace gimbal {
namespace {

constexpr size_t kMostText = 200;
// Deeper and more than any machine; questions about devices go over pairs of them and up the tree.
constexpr int kMostDepth = 80;
constexpr size_t kMostDevices = 1024;

bool is_device(NodeKind kind) { return kind == NodeKind::kGpu || kind == NodeKind::kNic || kind == NodeKind::kNvSwitch; }

bool is_printable(std::string_view text) {
  return text.size() <= kMostText && std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

Status check_node(const TopologyGraph& graph, size_t id) {
  const TopologyNode& node = graph.nodes[id];
  const std::string who = "node " + std::to_string(id);
  if (node.kind == NodeKind::kMachine) {
    if (node.parent != kNoNode) return {Code::kInvalidArgument, who + " is a machine and has a parent"};
  } else if (node.parent < 0 || static_cast<size_t>(node.parent) >= id) {
    return {Code::kInvalidArgument, who + " has the parent " + std::to_string(node.parent) +
                                        "; allowed: a node before it, 0 to " + std::to_string(id - 1)};
  }
  if (node.cpu_kind < -1 || node.cpu_kind >= static_cast<int64_t>(graph.cpu_kinds.size())) {
    return {Code::kInvalidArgument,
            who + " has the CPU kind " + std::to_string(node.cpu_kind) + " of " + std::to_string(graph.cpu_kinds.size())};
  }
  if (!is_printable(node.name) || !is_printable(node.model)) {
    return {Code::kInvalidArgument, who + " has a name or model that is not printable ASCII of at most 200 bytes"};
  }
  return {};
}

// PCI addresses and numbers as a sort key; devices without an address come last, in the graph's order.
auto device_key(const TopologyNode& node, NodeId id) {
  return std::tuple(!node.bus_id.has_value(), node.bus_id.value_or(BusId{}), id);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result(text.substr(0, kMostText));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

NodeId add_node(TopologyGraph& graph, TopologyNode node) {
  node.name = printable(node.name);
  node.model = printable(node.model);
  for (NetPort& port : node.ports) {
    port.name = printable(port.name);
    port.interface = printable(port.interface);
    port.gid = printable(port.gid);
  }
  graph.nodes.push_back(std::move(node));
  return static_cast<NodeId>(graph.nodes.size() - 1);
}

void number_devices(TopologyGraph& graph) {
  std::map<std::pair<NodeId, NodeKind>, std::vector<NodeId>> groups;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    if (is_device(graph.nodes[id].kind)) groups[{machine_of(graph, id), graph.nodes[id].kind}].push_back(id);
  }
  for (auto& [key, ids] : groups) {
    const auto node = [&](NodeId id) -> TopologyNode& { return graph.nodes[id]; };
    std::sort(ids.begin(), ids.end(), [&](NodeId a, NodeId b) { return device_key(node(a), a) < device_key(node(b), b); });
    if (key.second == NodeKind::kGpu &&
        std::all_of(ids.begin(), ids.end(), [&](NodeId id) { return node(id).os_index >= 0; })) {
      std::stable_sort(ids.begin(), ids.end(), [&](NodeId a, NodeId b) { return node(a).os_index < node(b).os_index; });
    }
    for (size_t i = 0; i < ids.size(); ++i) node(ids[i]).index = static_cast<int32_t>(i);
  }
}

std::vector<NodeId> nodes_of_kind(const TopologyGraph& graph, NodeKind kind) {
  std::vector<NodeId> ids;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    if (graph.nodes[id].kind == kind) ids.push_back(id);
  }
  const auto number = [&](NodeId id) { return is_device(kind) ? graph.nodes[id].index : graph.nodes[id].os_index; };
  std::stable_sort(ids.begin(), ids.end(), [&](NodeId a, NodeId b) { return number(a) < number(b); });
  return ids;
}

std::vector<NodeId> children_of(const TopologyGraph& graph, NodeId parent) {
  std::vector<NodeId> ids;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    if (graph.nodes[id].parent == parent && id != parent) ids.push_back(id);
  }
  return ids;
}

NodeId ancestor_of_kind(const TopologyGraph& graph, NodeId id, NodeKind kind) {
  for (id = graph.nodes[id].parent; id != kNoNode; id = graph.nodes[id].parent) {
    if (graph.nodes[id].kind == kind) return id;
  }
  return kNoNode;
}

NodeId machine_of(const TopologyGraph& graph, NodeId id) {
  while (graph.nodes[id].parent != kNoNode) id = graph.nodes[id].parent;
  return id;
}

Status check_graph(const TopologyGraph& graph) {
  if (graph.nodes.empty() || graph.nodes[0].kind != NodeKind::kMachine) {
    return {Code::kInvalidArgument, "the first node is not a machine"};
  }
  std::vector<int> depth(graph.nodes.size(), 0);
  size_t devices = 0;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    RETURN_IF_ERROR(check_node(graph, id));
    const TopologyNode& node = graph.nodes[id];
    if (node.parent != kNoNode) depth[id] = depth[node.parent] + 1;
    if (depth[id] > kMostDepth) return {Code::kInvalidArgument, "node " + std::to_string(id) + " is nested more than 80 deep"};
    if (is_device(node.kind) && ++devices > kMostDevices) {
      return {Code::kInvalidArgument, "there are more than 1024 GPUs, NICs and NVSwitches"};
    }
  }
  const auto count = static_cast<NodeId>(graph.nodes.size());
  for (size_t i = 0; i < graph.links.size(); ++i) {
    const TopologyLink& link = graph.links[i];
    if (link.a < 0 || link.a >= count || link.b < 0 || link.b >= count) {
      return {Code::kInvalidArgument, "link " + std::to_string(i) + " joins nodes " + std::to_string(link.a) + " and " +
                                          std::to_string(link.b) + " of " + std::to_string(count)};
    }
    if (link.kind == LinkKind::kPci && graph.nodes[link.a].parent != link.b) {
      return {Code::kInvalidArgument, "link " + std::to_string(i) + " is PCI and does not lead from a node to its parent"};
    }
  }
  return {};
}

void merge_graph(TopologyGraph& graph, const TopologyGraph& other) {
  std::vector<NodeId> moved(other.nodes.size(), kNoNode);
  const auto kinds = static_cast<int32_t>(graph.cpu_kinds.size());
  for (NodeId id = 0; id < static_cast<NodeId>(other.nodes.size()); ++id) {
    const TopologyNode& node = other.nodes[id];
    if (node.kind == NodeKind::kMachine) {
      const auto same = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const TopologyNode& mine) {
        return mine.kind == NodeKind::kMachine && mine.name == node.name;
      });
      if (same != graph.nodes.end() && !node.name.empty()) {
        const auto machine = static_cast<NodeId>(same - graph.nodes.begin());
        for (NodeId mine = 0; mine < static_cast<NodeId>(graph.nodes.size()); ++mine) {
          if (graph.nodes[mine].kind != NodeKind::kPu || machine_of(graph, mine) != machine) continue;
          graph.nodes[mine].allowed |= std::any_of(other.nodes.begin(), other.nodes.end(), [&](const TopologyNode& theirs) {
            return theirs.kind == NodeKind::kPu && theirs.os_index == graph.nodes[mine].os_index && theirs.allowed &&
                   machine_of(other, static_cast<NodeId>(&theirs - other.nodes.data())) == id;
          });
        }
        continue;
      }
    } else if (moved[node.parent] == kNoNode) {
      continue;
    }
    TopologyNode copy = node;
    if (node.parent != kNoNode) copy.parent = moved[node.parent];
    if (node.cpu_kind >= 0) copy.cpu_kind += kinds;
    moved[id] = add_node(graph, std::move(copy));
  }
  for (TopologyLink link : other.links) {
    link.a = moved[link.a];
    link.b = moved[link.b];
    if (link.a != kNoNode && link.b != kNoNode) graph.links.push_back(link);
  }
  graph.cpu_kinds.insert(graph.cpu_kinds.end(), other.cpu_kinds.begin(), other.cpu_kinds.end());
}

std::string_view kind_name(NodeKind kind) {
  switch (kind) {
    case NodeKind::kMachine:
      return "machine";
    case NodeKind::kPackage:
      return "package";
    case NodeKind::kNuma:
      return "numa";
    case NodeKind::kCache:
      return "cache";
    case NodeKind::kCore:
      return "core";
    case NodeKind::kPu:
      return "pu";
    case NodeKind::kHostBridge:
      return "host_bridge";
    case NodeKind::kSwitch:
      return "switch";
    case NodeKind::kGpu:
      return "gpu";
    case NodeKind::kNic:
      return "nic";
    case NodeKind::kNvSwitch:
      return "nvswitch";
  }
  return "unknown";
}

std::string_view kind_name(LinkKind kind) {
  switch (kind) {
    case LinkKind::kPci:
      return "pci";
    case LinkKind::kNvlink:
      return "nvlink";
    case LinkKind::kInterconnect:
      return "interconnect";
  }
  return "unknown";
}

std::string_view port_state_name(PortState state) {
  switch (state) {
    case PortState::kUnknown:
      return "unknown";
    case PortState::kUp:
      return "up";
    case PortState::kDown:
      return "down";
  }
  return "unknown";
}

std::string label(const TopologyGraph& graph, NodeId id) {
  const TopologyNode& node = graph.nodes[id];
  const std::string address = node.bus_id ? " " + format(*node.bus_id) : "";
  const auto numbered = [](const char* word, int64_t number) {
    return std::string(word) + " " + (number < 0 ? "unknown" : std::to_string(number));
  };
  switch (node.kind) {
    case NodeKind::kMachine:
      return node.name.empty() ? "machine" : "machine " + node.name;
    case NodeKind::kPackage:
      return numbered("package", node.os_index);
    case NodeKind::kNuma:
      return numbered("NUMA", node.os_index);
    case NodeKind::kCache:
      return node.name;
    case NodeKind::kCore:
      return numbered("core", node.os_index);
    case NodeKind::kPu:
      return numbered("PU", node.os_index);
    case NodeKind::kHostBridge:
      return "host bridge" + address;
    case NodeKind::kSwitch:
      return "switch" + address;
    case NodeKind::kGpu:
      return numbered("GPU", node.index);
    case NodeKind::kNic:
      return numbered("NIC", node.index);
    case NodeKind::kNvSwitch:
      return numbered("NVSwitch", node.index);
  }
  return "node";
}

}  // namespace gimbal
