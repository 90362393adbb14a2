#include "topology/sysfs.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "topology/link_speeds.h"

namespace gimbal {
namespace {

namespace fs = std::filesystem;

// "16.0 GT/s PCIe" -> 16, "16" -> 16, "200 Gb/sec (4X HDR)" -> 200; 0 for "Unknown" and what cannot be read.
double leading_number(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  return value > 0 && value < 1e9 ? value : 0;
}

struct PciEnd {
  double speed_gts = 0;
  int32_t width = 0;
};

PciEnd read_pci_end(const fs::path& device, const std::string& which) {
  PciEnd end;
  end.speed_gts = leading_number(read_sysfs_line(device / (which + "_link_speed")));
  end.width = static_cast<int32_t>(leading_number(read_sysfs_line(device / (which + "_link_width"))));
  // What the kernel writes for a link that it knows nothing of.
  if (end.width > 32) end.width = 0;
  return end;
}

// The smaller of two ends' abilities, where 0 is unknown.
template <typename T>
T both(T device, T port) {
  return device == 0 || port == 0 ? std::max(device, port) : std::min(device, port);
}

void add_link_facts(const TopologyNode& node, TopologyLink& link, const fs::path& root) {
  std::error_code error;
  const fs::path device = fs::canonical(root / "bus/pci/devices" / format(*node.bus_id), error);
  if (error) return;
  const PciEnd current = read_pci_end(device, "current");
  if (current.speed_gts == 0 || current.width == 0) return;
  // The port above is the directory above.
  const PciEnd most = read_pci_end(device, "max");
  const PciEnd port_most = read_pci_end(device.parent_path(), "max");
  link.speed_gts = current.speed_gts;
  link.width = current.width;
  link.most_speed_gts = both(most.speed_gts, port_most.speed_gts);
  link.most_width = both(most.width, port_most.width);
  link.bandwidth_gbps = pci_bandwidth_gbps(current.speed_gts, current.width);
}

void add_interface_facts(NetPort& port, const std::string& interface, const fs::path& root) {
  const fs::path device = root / "class/net" / interface;
  // -1 where the driver does not say.
  if (port.gbits == 0) port.gbits = leading_number(read_sysfs_line(device / "speed")) / 1000;
  const std::string state = read_sysfs_line(device / "operstate");
  if (port.state != PortState::kUnknown || state.empty() || state == "unknown") return;
  port.state = state == "up" ? PortState::kUp : PortState::kDown;
}

// "4: ACTIVE", "200 Gb/sec (4X HDR)", "fe80:...".
void add_infiniband_facts(NetPort& port, const fs::path& root) {
  const fs::path device = root / "class/infiniband" / port.name / "ports/1";
  const std::string state = read_sysfs_line(device / "state");
  if (!state.empty()) port.state = state[0] == '4' ? PortState::kUp : PortState::kDown;
  if (const double gbits = leading_number(read_sysfs_line(device / "rate")); gbits > 0) port.gbits = gbits;
  if (const std::string gid = read_sysfs_line(device / "gids/0"); !gid.empty()) port.gid = printable(gid);
}

}  // namespace

std::string read_sysfs_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void add_sysfs_facts(TopologyGraph& graph, const std::string& root) {
  for (TopologyLink& link : graph.links) {
    if (link.kind == LinkKind::kPci && graph.nodes[link.a].bus_id) add_link_facts(graph.nodes[link.a], link, root);
  }
  for (TopologyNode& node : graph.nodes) {
    for (NetPort& port : node.ports) {
      add_infiniband_facts(port, root);
      add_interface_facts(port, port.interface.empty() ? port.name : port.interface, root);
    }
  }
}

}  // namespace gimbal
