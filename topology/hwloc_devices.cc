#include "topology/hwloc_devices.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "topology/link_speeds.h"

namespace gimbal {
namespace {

constexpr unsigned kNvidia = 0x10de;
constexpr unsigned kAmd = 0x1002;

bool has_os_device(hwloc_obj_t pci, hwloc_obj_osdev_type_t type) {
  for (hwloc_obj_t child = pci->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == type) return true;
  }
  return false;
}

// A display of a management controller or of a virtual machine is no GPU to calculate with: class VGA counts for makers of such
// GPUs only, or when a GPU library knows the device.
std::optional<NodeKind> kind_of_pci(hwloc_obj_t pci) {
  const unsigned type = pci->attr->pcidev.class_id;
  const unsigned vendor = pci->attr->pcidev.vendor_id;
  const std::string_view subtype = pci->subtype == nullptr ? "" : pci->subtype;
  if (subtype == "NVSwitch" || (type == 0x0680 && vendor == kNvidia)) return NodeKind::kNvSwitch;
  if (type >> 8 == 0x02) return NodeKind::kNic;
  if (type == 0x0302 || type == 0x1200) return NodeKind::kGpu;
  if (type >> 8 == 0x03 && (vendor == kNvidia || vendor == kAmd)) return NodeKind::kGpu;
  if (has_os_device(pci, HWLOC_OBJ_OSDEV_COPROC)) return NodeKind::kGpu;
  if (has_os_device(pci, HWLOC_OBJ_OSDEV_OPENFABRICS) || has_os_device(pci, HWLOC_OBJ_OSDEV_NETWORK)) return NodeKind::kNic;
  return std::nullopt;
}

bool is_network(hwloc_obj_t device) {
  return device->type == HWLOC_OBJ_OS_DEVICE &&
         (device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK || device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS);
}

// Whether anything that the graph keeps is at or below the object.
bool is_kept(hwloc_obj_t object) {
  if (object->type == HWLOC_OBJ_PCI_DEVICE) return kind_of_pci(object).has_value();
  if (is_network(object)) return true;
  for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling) {
    if (is_kept(child)) return true;
  }
  return false;
}

BusId bus_id_of(hwloc_obj_t object) {
  const auto& pci = object->type == HWLOC_OBJ_BRIDGE ? object->attr->bridge.upstream.pci : object->attr->pcidev;
  return {pci.domain, pci.bus, pci.dev, pci.func};
}

std::string info(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value == nullptr ? "" : printable(value);
}

// InfiniBand's port states: 4 is active (InfiniBand Architecture, volume 1, PortInfo).
PortState port_state(const std::string& state) {
  if (state.empty()) return PortState::kUnknown;
  return state[0] == '4' ? PortState::kUp : PortState::kDown;
}

// OpenFabrics devices are ports, with the network interfaces on top of them in order; without any the interfaces are.
void read_os_devices(hwloc_obj_t first, TopologyNode& node) {
  std::vector<std::string> interfaces;
  for (hwloc_obj_t child = first; child != nullptr; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || child->name == nullptr) continue;
    switch (child->attr->osdev.type) {
      case HWLOC_OBJ_OSDEV_OPENFABRICS:
        node.ports.push_back(
            {.name = printable(child->name), .state = port_state(info(child, "Port1State")), .gid = info(child, "Port1GID0")});
        break;
      case HWLOC_OBJ_OSDEV_NETWORK:
        interfaces.emplace_back(printable(child->name));
        break;
      case HWLOC_OBJ_OSDEV_GPU:
      case HWLOC_OBJ_OSDEV_COPROC:
        if (node.kind != NodeKind::kGpu) break;
        // CUDA's number depends on CUDA_VISIBLE_DEVICES, NVML's does not: its name is the better one to show.
        if (node.name.empty() || node.name.starts_with("cuda")) node.name = child->name;
        if (node.model.empty()) node.model = info(child, "GPUModel");
        break;
      default:
        break;
    }
  }
  for (size_t i = 0; i < interfaces.size(); ++i) {
    if (i < node.ports.size()) {
      node.ports[i].interface = interfaces[i];
    } else {
      node.ports.push_back({.name = interfaces[i]});
    }
  }
  if (node.kind == NodeKind::kNic && !node.ports.empty()) node.name = node.ports[0].name;
}

// Where a bridge is on the way down: bridges alternate between the two ends of a link.
enum class Above : uint8_t { kHost, kPort, kSwitch };

class DeviceReader {
 public:
  DeviceReader(const std::vector<int32_t>& near, TopologyGraph& graph, HwlocNodes& nodes)
      : near_(near), graph_(graph), nodes_(nodes) {}

  void read(hwloc_obj_t object, NodeId parent, Above above) {
    if (!is_kept(object)) return;
    if (object->type == HWLOC_OBJ_BRIDGE) return read_bridge(object, parent, above);
    if (object->type == HWLOC_OBJ_PCI_DEVICE) {
      TopologyNode node{.kind = *kind_of_pci(object), .parent = parent, .bus_id = bus_id_of(object), .numa = near_};
      if (const std::string name = info(object, "PCIDevice"); !name.empty()) node.model = name;
      read_os_devices(object->io_first_child, node);
      add(object, std::move(node), object->attr->pcidev.linkspeed);
    } else if (is_network(object)) {  // not on PCI, as in some virtual machines
      TopologyNode node{.kind = NodeKind::kNic, .parent = parent, .numa = near_};
      node.ports.push_back({.name = printable(object->name == nullptr ? "" : object->name)});
      node.name = node.ports[0].name;
      nodes_[object] = add_node(graph_, std::move(node));
    }
  }

 private:
  void read_bridge(hwloc_obj_t bridge, NodeId parent, Above above) {
    Above below = Above::kHost;
    if (bridge->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
      parent = add_node(graph_, {.kind = NodeKind::kHostBridge, .parent = parent, .numa = near_});
    } else if (above == Above::kPort || is_shared_bus(bridge)) {
      parent = add(bridge, {.kind = NodeKind::kSwitch, .parent = parent, .bus_id = bus_id_of(bridge), .numa = near_},
                   bridge->attr->bridge.upstream.pci.linkspeed);
      below = Above::kSwitch;
    } else {
      below = Above::kPort;  // a root port or a switch's downstream port: one end of a link, no hop
    }
    for (hwloc_obj_t child = bridge->io_first_child; child != nullptr; child = child->next_sibling) read(child, parent, below);
  }

  // Different devices right below a port: a conventional PCI bus, or a switch whose ports the file leaves out.
  static bool is_shared_bus(hwloc_obj_t bridge) {
    std::optional<BusId> first;
    for (hwloc_obj_t child = bridge->io_first_child; child != nullptr; child = child->next_sibling) {
      if (child->type != HWLOC_OBJ_PCI_DEVICE || !is_kept(child)) continue;
      const BusId id = bus_id_of(child);
      if (!first) first = id;
      if (first->bus != id.bus || first->device != id.device) return true;
    }
    return false;
  }

  NodeId add(hwloc_obj_t object, TopologyNode node, float gbps) {
    const NodeId parent = node.parent;
    const NodeId id = add_node(graph_, std::move(node));
    nodes_[object] = id;
    const bool is_known = gbps > 0 && gbps < 1e6F;
    graph_.links.push_back({.kind = LinkKind::kPci,
                            .a = id,
                            .b = parent,
                            .bandwidth_gbps = is_known ? static_cast<double>(gbps) : 0,
                            .latency_us = kSwitchLatencyUs});
    return id;
  }

  const std::vector<int32_t>& near_;
  TopologyGraph& graph_;
  HwlocNodes& nodes_;
};

// The node of a matrix's object: the device itself, or the PCI device under an OS device.
NodeId node_of(hwloc_obj_t object, const HwlocNodes& nodes) {
  for (; object != nullptr; object = object->parent) {
    if (const auto found = nodes.find(object); found != nodes.end()) return found->second;
  }
  return kNoNode;
}

}  // namespace

void read_hwloc_devices(hwloc_obj_t holder, NodeId node, const std::vector<int32_t>& near, TopologyGraph& graph,
                        HwlocNodes& nodes) {
  DeviceReader reader(near, graph, nodes);
  for (hwloc_obj_t child = holder->io_first_child; child != nullptr; child = child->next_sibling) {
    reader.read(child, node, Above::kHost);
  }
}

void read_hwloc_direct_links(hwloc_topology_t topology, const HwlocNodes& nodes, TopologyGraph& graph) {
  constexpr double kMegabytesPerGigabyte = 1000;
  for (const char* name : {"NVLinkBandwidth", "XGMIBandwidth"}) {
    hwloc_distances_s* matrix = nullptr;
    unsigned count = 1;
    if (hwloc_distances_get_by_name(topology, name, &count, &matrix, 0) != 0 || count == 0) continue;
    for (unsigned i = 0; i < matrix->nbobjs; ++i) {
      for (unsigned j = i + 1; j < matrix->nbobjs; ++j) {
        const auto value = static_cast<double>(matrix->values[i * matrix->nbobjs + j]);
        const NodeId a = node_of(matrix->objs[i], nodes);
        const NodeId b = node_of(matrix->objs[j], nodes);
        if (value <= 0 || a == kNoNode || b == kNoNode || a == b) continue;
        graph.links.push_back({.kind = LinkKind::kNvlink,
                               .a = std::min(a, b),
                               .b = std::max(a, b),
                               .bandwidth_gbps = value / kMegabytesPerGigabyte,
                               .latency_us = kNvlinkLatencyUs});
      }
    }
    hwloc_distances_release(topology, matrix);
  }
}

}  // namespace gimbal
