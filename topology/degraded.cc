#include "topology/degraded.h"

#include <cstdio>

namespace gimbal {
namespace {

// Firmware tables call local memory 10 and the other package of a two-package server 20 to 32.
constexpr int32_t kFarDistance = 32;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

void check_pci_link(const TopologyGraph& graph, const TopologyLink& link, std::vector<Degraded>& all) {
  const std::string who =
      label(graph, link.a) + (graph.nodes[link.a].bus_id ? " (" + format(*graph.nodes[link.a].bus_id) + ")" : "");
  const bool is_narrow = link.width > 0 && link.width < link.most_width;
  const bool is_slow = link.speed_gts > 0 && link.speed_gts < link.most_speed_gts;
  if (!is_narrow && !is_slow) return;
  Degraded& found = all.emplace_back();
  found.node = link.a;
  found.what = who + ": PCI link trained to " + number(link.speed_gts) + " GT/s x" + std::to_string(link.width) + " of " +
               number(link.most_speed_gts) + " GT/s x" + std::to_string(link.most_width);
  // GPUs lower the speed, never the width, of an idle link to save power.
  found.remedy = !is_narrow && graph.nodes[link.a].kind == NodeKind::kGpu
                     ? "look again under load (an idle GPU lowers its link speed); if it stays, reseat the card"
                     : "reseat the card or riser, and compare the slot's limits in the firmware setup";
}

void check_ports(const TopologyGraph& graph, NodeId id, std::vector<Degraded>& all) {
  for (const NetPort& port : graph.nodes[id].ports) {
    if (port.state != PortState::kDown) continue;
    all.push_back({id, label(graph, id) + ": port " + port.name + " is down",
                   "plug in the cable or enable the switch port; bring the interface up with ip link set " +
                       (port.interface.empty() ? port.name : port.interface) + " up"});
  }
}

}  // namespace

std::vector<Degraded> find_degraded(const TopologyGraph& graph) {
  std::vector<Degraded> all;
  for (const TopologyLink& link : graph.links) {
    if (link.kind == LinkKind::kPci) check_pci_link(graph, link, all);
    if (link.kind != LinkKind::kInterconnect || link.distance <= kFarDistance) continue;
    all.push_back({link.a,
                   label(graph, link.a) + " and " + label(graph, link.b) + " are far from each other: distance " +
                       std::to_string(link.distance) + " where local is 10",
                   "keep a rank's memory and devices on its own NUMA node: start it with gimbal-run --bind numa"});
  }
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) check_ports(graph, id, all);
  return all;
}

}  // namespace gimbal
