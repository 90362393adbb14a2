#include "topology/paths.h"

#include <algorithm>

#include "topology/link_speeds.h"

namespace gimbal {
namespace {

// The narrower of two bandwidths, where 0 is unknown.
double narrower(double a, double b) {
  if (a <= 0 || b <= 0) return std::max(a, b);
  return std::min(a, b);
}

// From the node up to, and with, its machine.
std::vector<NodeId> chain_of(const TopologyGraph& graph, NodeId id) {
  std::vector<NodeId> chain;
  for (; id != kNoNode; id = graph.nodes[id].parent) chain.push_back(id);
  return chain;
}

bool is_pci(NodeKind kind) {
  return kind == NodeKind::kHostBridge || kind == NodeKind::kSwitch || kind == NodeKind::kGpu || kind == NodeKind::kNic ||
         kind == NodeKind::kNvSwitch;
}

// The part of a chain that is PCI: up to and with its host bridge.
void keep_pci(const TopologyGraph& graph, std::vector<NodeId>& chain) {
  const auto end = std::find_if(chain.begin(), chain.end(), [&](NodeId id) { return !is_pci(graph.nodes[id].kind); });
  chain.erase(end, chain.end());
}

}  // namespace

std::string_view path_class_name(PathClass path_class) {
  switch (path_class) {
    case PathClass::kLoc:
      return "LOC";
    case PathClass::kNvl:
      return "NVL";
    case PathClass::kPix:
      return "PIX";
    case PathClass::kPxb:
      return "PXB";
    case PathClass::kPhb:
      return "PHB";
    case PathClass::kSys:
      return "SYS";
    case PathClass::kNet:
      return "NET";
  }
  return "?";
}

LinkCost link_cost(const Path& path) { return {path.latency_us, path.bandwidth_gbps, 0}; }

bool is_near(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  if (a.empty() || b.empty()) return true;
  return std::any_of(a.begin(), a.end(), [&](int32_t numa) { return std::find(b.begin(), b.end(), numa) != b.end(); });
}

PathFinder::PathFinder(const TopologyGraph& graph) : graph_(graph), uplink_(graph.nodes.size(), nullptr) {
  const auto is_nvswitch = [&](NodeId id) { return graph.nodes[id].kind == NodeKind::kNvSwitch; };
  for (const TopologyLink& link : graph.links) {
    switch (link.kind) {
      case LinkKind::kPci:
        uplink_[link.a] = &link;
        break;
      case LinkKind::kInterconnect:
        interconnect_[{link.a, link.b}] = &link;
        interconnect_.try_emplace({link.b, link.a}, &link);
        break;
      case LinkKind::kNvlink:
        if (is_nvswitch(link.a) != is_nvswitch(link.b)) {
          Fabric& fabric = fabric_.try_emplace(is_nvswitch(link.a) ? link.b : link.a).first->second;
          fabric.first_switch = is_nvswitch(link.a) ? link.a : link.b;
          fabric.bandwidth_gbps += link.bandwidth_gbps;
        } else if (!is_nvswitch(link.a)) {
          nvlinks_[{link.a, link.b}] += link.bandwidth_gbps;
          nvlinks_[{link.b, link.a}] += link.bandwidth_gbps;
        }
        break;
    }
  }
}

Path PathFinder::find(NodeId a, NodeId b) const {
  if (a == b) return {PathClass::kLoc, {a}, 0, 0};
  if (machine_of(graph_, a) != machine_of(graph_, b)) return {PathClass::kNet, {a, b}, 0, 0};
  Path path = nvlink_path(a, b);
  return path.nodes.empty() ? pci_path(a, b) : path;
}

// Direct links and the way through the NVSwitches run side by side. Without a way the path has no nodes.
Path PathFinder::nvlink_path(NodeId a, NodeId b) const {
  Path path{PathClass::kNvl, {}, 0, kNvlinkLatencyUs};
  const auto into = fabric_.find(a);
  const auto out = fabric_.find(b);
  if (into != fabric_.end() && out != fabric_.end()) {
    path.nodes = {a, into->second.first_switch, b};
    path.bandwidth_gbps = narrower(into->second.bandwidth_gbps, out->second.bandwidth_gbps);
  }
  if (const auto direct = nvlinks_.find({a, b}); direct != nvlinks_.end()) {
    path.nodes = {a, b};
    path.bandwidth_gbps += direct->second;
  }
  return path;
}

Path PathFinder::pci_path(NodeId a, NodeId b) const {
  std::vector<NodeId> up = chain_of(graph_, a);
  std::vector<NodeId> down = chain_of(graph_, b);
  keep_pci(graph_, up);
  keep_pci(graph_, down);
  // NUMA nodes are ends, not parts of the PCI tree.
  if (up.empty()) up = {a};
  if (down.empty()) down = {b};
  const bool meet = up.back() == down.back();
  while (up.size() > 1 && down.size() > 1 && up[up.size() - 2] == down[down.size() - 2]) {
    up.pop_back();
    down.pop_back();
  }
  Path path;
  const auto climb = [&](const std::vector<NodeId>& side) {
    for (size_t i = 0; i + 1 < side.size(); ++i) {
      if (uplink_[side[i]] == nullptr) continue;
      path.bandwidth_gbps = narrower(path.bandwidth_gbps, uplink_[side[i]]->bandwidth_gbps);
    }
  };
  climb(up);
  climb(down);
  path.nodes = up;
  if (meet) path.nodes.pop_back();
  path.nodes.insert(path.nodes.end(), down.rbegin(), down.rend());
  const auto count = [&](NodeKind kind) {
    return std::count_if(path.nodes.begin(), path.nodes.end(), [&](NodeId id) { return graph_.nodes[id].kind == kind; });
  };
  const int64_t switches = count(NodeKind::kSwitch);
  path.latency_us = static_cast<double>(switches) * kSwitchLatencyUs;
  if (meet && count(NodeKind::kHostBridge) == 0) {
    path.path_class = switches > 1 ? PathClass::kPxb : PathClass::kPix;
    return path;
  }
  path.latency_us += kHostBridgeLatencyUs;
  path.path_class = meet || is_near(graph_.nodes[a].numa, graph_.nodes[b].numa) ? PathClass::kPhb : PathClass::kSys;
  if (path.path_class == PathClass::kSys) add_interconnect(path, a, b);
  return path;
}

// The widest link between a NUMA node near a and one near b.
void PathFinder::add_interconnect(Path& path, NodeId a, NodeId b) const {
  path.latency_us += kInterconnectLatencyUs;
  const TopologyLink* widest = nullptr;
  for (const auto& [ends, link] : interconnect_) {
    const auto is_near_end = [&](NodeId end, NodeId device) {
      const std::vector<int32_t>& near = graph_.nodes[device].numa;
      return std::find(near.begin(), near.end(), graph_.nodes[end].os_index) != near.end() &&
             machine_of(graph_, end) == machine_of(graph_, device);
    };
    const bool fits = is_near_end(ends.first, a) && is_near_end(ends.second, b);
    if (fits && (widest == nullptr || link->bandwidth_gbps > widest->bandwidth_gbps)) widest = link;
  }
  if (widest != nullptr) path.bandwidth_gbps = narrower(path.bandwidth_gbps, widest->bandwidth_gbps);
}

std::vector<NodeId> PathFinder::nearest_nics(NodeId device) const {
  std::vector<NodeId> nearest;
  Path best;
  for (const NodeId nic : nodes_of_kind(graph_, NodeKind::kNic)) {
    if (machine_of(graph_, nic) != machine_of(graph_, device)) continue;
    Path path = pci_path(device, nic);
    const bool better = nearest.empty() || path.path_class < best.path_class ||
                        (path.path_class == best.path_class && path.bandwidth_gbps > best.bandwidth_gbps);
    if (!better && (path.path_class != best.path_class || path.bandwidth_gbps < best.bandwidth_gbps)) continue;
    if (better) nearest.clear();
    if (better) best = std::move(path);
    nearest.push_back(nic);
  }
  return nearest;
}

}  // namespace gimbal
