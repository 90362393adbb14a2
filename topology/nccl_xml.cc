#include "topology/nccl_xml.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <pugixml.hpp>

#include "topology/link_speeds.h"

namespace gimbal {
namespace {

// Deeper than any tree of switches; the reader recurses.
constexpr int kMostDepth = 64;
constexpr size_t kMostNodes = 100'000;
// Affinity masks have a bit per CPU; the Linux kernel's own limit is 8192.
constexpr size_t kMostCpus = 8192;
constexpr int kMostNumaNodes = 1024;  // the kernel's CONFIG_NODES_SHIFT of 10

Status fault(const pugi::xml_node& element, const std::string& what) {
  return {Code::kInvalidArgument, std::string("<") + printable(element.name()) + "> " + what};
}

// "0x030200" -> base class and subclass, 0x0302. 0 when it cannot be read.
uint32_t pci_class(const pugi::xml_node& element) {
  std::string_view text = element.attribute("class").value();
  if (text.starts_with("0x")) text.remove_prefix(2);
  uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value >> 8;
}

// "16 GT/s", "16.0 GT/s PCIe" -> 16; 0: unknown.
double link_speed_gts(const pugi::xml_node& element) {
  const double speed = element.attribute("link_speed").as_double(0);
  return speed > 0 && speed < 1e6 ? speed : 0;
}

struct DirectLink {
  NodeId from;
  std::string target;
  int count;
  double bandwidth_gbps;
  bool to_nvswitch;
};

class NcclReader {
 public:
  Result<TopologyGraph> read(const pugi::xml_node& system) {
    const NodeId machine = add_node(graph_, {});
    graph_.nodes[machine].name = printable(system.attribute("host_hash").value());
    for (const pugi::xml_node& cpu : system.children("cpu")) RETURN_IF_ERROR(read_cpu(cpu, machine));
    if (graph_.nodes.size() == 1) return fault(system, "has no <cpu>");
    connect_numa_nodes();
    RETURN_IF_ERROR(connect_devices(machine));
    number_devices(graph_);
    RETURN_IF_ERROR(check_graph(graph_));
    return std::move(graph_);
  }

 private:
  Status read_cpu(const pugi::xml_node& cpu, NodeId machine) {
    const int numa_id = cpu.attribute("numaid").as_int(-1);
    if (++numa_nodes_ > kMostNumaNodes) return fault(cpu, "is one of more than 1024");
    if (numa_id < -1) return fault(cpu, "has the numaid " + std::to_string(numa_id) + "; allowed: -1 (unknown) and up");
    TopologyNode numa{.kind = NodeKind::kNuma, .parent = machine, .os_index = numa_id};
    numa.model = std::string(cpu.attribute("vendor").value());
    if (numa_id >= 0) numa.numa = {numa_id};
    const std::vector<int32_t> near = numa.numa;
    const NodeId id = add_node(graph_, std::move(numa));
    RETURN_IF_ERROR(read_affinity(cpu, id, near));
    const NodeId bridge = add_node(graph_, {.kind = NodeKind::kHostBridge, .parent = machine, .numa = near});
    for (const pugi::xml_node& child : cpu.children()) {
      const std::string_view name = child.name();
      if (name == "pci") RETURN_IF_ERROR(read_pci(child, bridge, 0));
      // A NIC with no PCI address of its own (a socket interface of a virtual machine).
      if (name == "nic")
        RETURN_IF_ERROR(read_nic(child, add_node(graph_, {.kind = NodeKind::kNic, .parent = bridge, .numa = near})));
    }
    return {};
  }

  // "00000000,0000ffff,ff000000": 32 bits a word, the highest first.
  Status read_affinity(const pugi::xml_node& cpu, NodeId numa, const std::vector<int32_t>& near) {
    const std::string_view text = cpu.attribute("affinity").value();
    size_t bit = 0;
    for (size_t i = text.size(); i-- > 0;) {
      if (text[i] == ',') continue;
      unsigned digit = 0;
      if (std::from_chars(&text[i], &text[i] + 1, digit, 16).ec != std::errc()) {
        return fault(cpu, "has an affinity that is no hexadecimal mask: \"" + printable(text) + "\"");
      }
      for (unsigned i_bit = 0; i_bit < 4; ++i_bit, ++bit) {
        if ((digit >> i_bit & 1) == 0) continue;
        if (bit >= kMostCpus) return fault(cpu, "has CPU " + std::to_string(bit) + " in its affinity; the most is 8191");
        add_node(graph_, {.kind = NodeKind::kPu, .parent = numa, .os_index = static_cast<int64_t>(bit), .numa = near});
      }
    }
    return {};
  }

  Status read_pci(const pugi::xml_node& element, NodeId parent, int depth) {
    if (depth > kMostDepth) return fault(element, "is nested more than 64 deep");
    if (graph_.nodes.size() >= kMostNodes) return fault(element, "is one of more than 100000");
    TopologyNode node{.kind = NodeKind::kSwitch, .parent = parent, .numa = graph_.nodes[parent].numa};
    const std::string address = element.attribute("busid").value();
    node.bus_id = parse_bus_id(address);
    if (!node.bus_id)
      return fault(element, "has the busid \"" + printable(address) + "\"; allowed is an address as 0000:3b:00.0");
    const uint32_t type = pci_class(element);
    const pugi::xml_node gpu = element.child("gpu");
    if (gpu || type >> 8 == 0x03 || type == 0x1200) {
      node.kind = NodeKind::kGpu;
      // Of an unfinished dump: dev is -1 there.
      node.os_index = std::max(-1, gpu.attribute("dev").as_int(-1));
    } else if (element.child("nic") || type >> 8 == 0x02) {
      node.kind = NodeKind::kNic;
    } else if (type == 0x0680) {
      node.kind = NodeKind::kNvSwitch;
    }
    const NodeId id = add_node(graph_, std::move(node));
    connect_to_parent(element, id, parent);
    for (const pugi::xml_node& child : element.children()) {
      const std::string_view name = child.name();
      if (name == "pci") RETURN_IF_ERROR(read_pci(child, id, depth + 1));
      if (name == "nic") RETURN_IF_ERROR(read_nic(child, id));
      if (name == "gpu") RETURN_IF_ERROR(read_direct_links(child, id));
    }
    return {};
  }

  void connect_to_parent(const pugi::xml_node& element, NodeId id, NodeId parent) {
    TopologyLink link{.kind = LinkKind::kPci, .a = id, .b = parent};
    link.speed_gts = link_speed_gts(element);
    link.width = std::clamp(element.attribute("link_width").as_int(0), 0, 64);
    link.bandwidth_gbps = pci_bandwidth_gbps(link.speed_gts, link.width);
    link.latency_us = kSwitchLatencyUs;
    graph_.links.push_back(link);
  }

  Status read_nic(const pugi::xml_node& element, NodeId nic) {
    for (const pugi::xml_node& net : element.children("net")) {
      NetPort port;
      port.name = printable(net.attribute("name").value());
      const double megabits = net.attribute("speed").as_double(0);
      if (!(megabits >= 0) || megabits > 1e9) return fault(net, "has a speed outside 0 to 1000000000 Mbit/s");
      port.gbits = megabits / 1000;
      graph_.nodes[nic].ports.push_back(std::move(port));
    }
    if (!graph_.nodes[nic].ports.empty()) graph_.nodes[nic].name = graph_.nodes[nic].ports[0].name;
    return {};
  }

  Status read_direct_links(const pugi::xml_node& gpu, NodeId id) {
    for (const pugi::xml_node& link : gpu.children()) {
      const std::string_view name = link.name();
      if (name != "nvlink" && name != "xgmi") continue;
      const int count = link.attribute("count").as_int(1);
      if (count < 1 || count > 1000) return fault(link, "has a count of " + std::to_string(count) + "; allowed: 1 to 1000");
      const double each = name == "xgmi" ? kXgmiBandwidthGbps : nvlink_bandwidth_gbps(gpu.attribute("sm").as_int(0));
      const bool to_nvswitch = std::string_view(link.attribute("tclass").value()).starts_with("0x0680");
      direct_links_.push_back({id, link.attribute("target").value(), count, each * count, to_nvswitch});
    }
    return {};
  }

  // NVSwitches are named by links only, and in virtual machines all by one invalid address: then they are one node.
  NodeId find_target(const DirectLink& link, NodeId machine) {
    const auto bus_id = parse_bus_id(link.target);
    if (bus_id) {
      const auto found = std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                                      [&](const TopologyNode& node) { return node.bus_id == bus_id; });
      if (found != graph_.nodes.end()) return static_cast<NodeId>(found - graph_.nodes.begin());
    }
    if (!link.to_nvswitch) return kNoNode;
    const auto [entry, is_new] = nvswitches_.try_emplace(link.target, kNoNode);
    if (is_new) entry->second = add_node(graph_, {.kind = NodeKind::kNvSwitch, .parent = machine, .bus_id = bus_id});
    return entry->second;
  }

  // Links between GPUs are listed at both ends; each pair becomes one link.
  Status connect_devices(NodeId machine) {
    std::map<std::pair<NodeId, NodeId>, TopologyLink> links;
    for (const DirectLink& direct : direct_links_) {
      const NodeId target = find_target(direct, machine);
      if (target == kNoNode || target == direct.from) continue;  // to a CPU (POWER9), or to a device that is not listed
      TopologyLink link{.kind = LinkKind::kNvlink, .a = std::min(direct.from, target), .b = std::max(direct.from, target)};
      link.count = direct.count;
      link.bandwidth_gbps = direct.bandwidth_gbps;
      link.latency_us = kNvlinkLatencyUs;
      const auto [entry, is_new] = links.try_emplace({link.a, link.b}, link);
      if (!is_new && entry->second.count != link.count) {
        return {Code::kInvalidArgument, label(graph_, link.a) + " and " + label(graph_, link.b) + " list " +
                                            std::to_string(entry->second.count) + " and " + std::to_string(link.count) +
                                            " links to each other"};
      }
    }
    for (const auto& [ends, link] : links) graph_.links.push_back(link);
    return {};
  }

  void connect_numa_nodes() {
    const std::vector<NodeId> all = nodes_of_kind(graph_, NodeKind::kNuma);
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t j = i + 1; j < all.size(); ++j) {
        TopologyLink link{.kind = LinkKind::kInterconnect, .a = all[i], .b = all[j], .latency_us = kInterconnectLatencyUs};
        link.bandwidth_gbps = interconnect_bandwidth_gbps(graph_.nodes[all[i]].model);
        graph_.links.push_back(link);
      }
    }
  }

  TopologyGraph graph_;
  int numa_nodes_ = 0;
  std::vector<DirectLink> direct_links_;
  std::map<std::string, NodeId> nvswitches_;
};

}  // namespace

Result<TopologyGraph> graph_from_nccl_xml(std::string_view text) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    return Status(Code::kInvalidArgument,
                  std::string("not well-formed XML: ") + parsed.description() + " at byte " + std::to_string(parsed.offset));
  }
  const pugi::xml_node system = document.child("system");
  if (!system) return Status(Code::kInvalidArgument, "has no <system>");
  return NcclReader().read(system);
}

}  // namespace gimbal
