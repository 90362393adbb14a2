// The machine as a graph: a tree of what contains what, and links with bandwidth and latency. Plain data; who reads a machine
// (topology/hwloc_reader.h, nccl_xml.h, graph_json.h) fills it, topology/paths.h and orders.h answer questions about it.
//
// Invariants (check_graph): node 0 is a machine; a machine has no parent, every other node has one that comes before it; links
// join existing nodes; text is printable ASCII.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/bus_id.h"

namespace gimbal {

using NodeId = int32_t;  // index into TopologyGraph::nodes
inline constexpr NodeId kNoNode = -1;

// kSwitch is a whole PCI Express switch: its upstream port stands for it, the downstream ports are left out, as they add no
// hop.
enum class NodeKind : uint8_t { kMachine, kPackage, kNuma, kCache, kCore, kPu, kHostBridge, kSwitch, kGpu, kNic, kNvSwitch };
inline constexpr int kNodeKindCount = 11;

enum class PortState : uint8_t { kUnknown, kUp, kDown };

// One port of a NIC. An InfiniBand port has a device name and, with IP over it, an interface too.
struct NetPort {
  std::string name = {};       // "mlx5_0" or "eth0"
  std::string interface = {};  // "ib0"; empty when it is the name or there is none
  double gbits = 0;            // Gbit/s; 0: unknown
  PortState state = PortState::kUnknown;
  std::string gid = {};  // InfiniBand and RoCE: the first GID
};

struct TopologyNode {
  NodeKind kind = NodeKind::kMachine;
  NodeId parent = kNoNode;
  int64_t os_index = -1;   // package, NUMA node, core, PU; a GPU that the file numbers; -1: unknown
  int32_t index = -1;      // GPUs, NICs, NVSwitches: the number within the machine (number_devices)
  std::string name = {};   // host name, "L3", "nvml0", "mlx5_0"
  std::string model = {};  // of a package, GPU or NIC
  std::optional<BusId> bus_id = {};
  uint64_t bytes = 0;              // memory of a NUMA node, size of a cache
  std::vector<int32_t> numa = {};  // the NUMA nodes that it is near; empty: unknown, which counts as near to all of them
  bool allowed = true;             // PUs: this process may use it
  int32_t cpu_kind = -1;           // PUs: index into cpu_kinds; -1: unknown
  std::vector<NetPort> ports = {};
  std::vector<int32_t> peer_gpus = {};  // GPUs: the indexes of those whose memory it may map, as CUDA says
};

enum class LinkKind : uint8_t { kPci, kNvlink, kInterconnect };
inline constexpr int kLinkKindCount = 3;

struct TopologyLink {
  LinkKind kind = LinkKind::kPci;
  NodeId a = kNoNode;         // PCI: the device or switch; its parent is b
  NodeId b = kNoNode;         // otherwise a < b, but for links whose directions differ
  int32_t count = 1;          // NVLink: how many side by side
  double bandwidth_gbps = 0;  // GB/s, one direction, all of them together; 0: unknown
  double latency_us = 0;
  int32_t distance = 0;  // interconnect: the firmware's relative distance (10 is local); 0: unknown
  // PCI, as trained and as both ends could: GT/s per lane and lanes; 0: unknown.
  double speed_gts = 0;
  int32_t width = 0;
  double most_speed_gts = 0;
  int32_t most_width = 0;
};

struct CpuKind {
  std::string name = {};    // "IntelAtom"; empty: unknown
  int32_t efficiency = -1;  // higher is faster; -1: unknown
  int32_t max_mhz = 0;      // 0: unknown
};

struct TopologyGraph {
  std::vector<TopologyNode> nodes = {};
  std::vector<TopologyLink> links = {};
  std::vector<CpuKind> cpu_kinds = {};
  double quota_cpus = std::numeric_limits<double>::infinity();  // of this process's cgroup
  bool is_this_machine = false;                                 // false for what a file says: nothing may be bound by it
};

// Appends the node and returns its id. Its text is made printable.
NodeId add_node(TopologyGraph& graph, TopologyNode node);

// Numbers the GPUs, NICs and NVSwitches of each machine by bus id; GPUs as the file numbers them when it numbers them all.
void number_devices(TopologyGraph& graph);

// All nodes of the kind: devices by index, the others by OS index, and in the graph's order where these are equal.
std::vector<NodeId> nodes_of_kind(const TopologyGraph& graph, NodeKind kind);

std::vector<NodeId> children_of(const TopologyGraph& graph, NodeId parent);

// The nearest ancestor of the kind; kNoNode without one. A node is not its own ancestor.
NodeId ancestor_of_kind(const TopologyGraph& graph, NodeId id, NodeKind kind);
NodeId machine_of(const TopologyGraph& graph, NodeId id);

// The sentence of the first broken invariant.
Status check_graph(const TopologyGraph& graph);

// Adds the other graph's machines. One with the name of a machine that is here already is the same machine: its allowed PUs are
// added, the rest is left out. Ranks of one job merge their graphs so.
void merge_graph(TopologyGraph& graph, const TopologyGraph& other);

std::string_view kind_name(NodeKind kind);  // "machine", "host_bridge", ...: also their names in JSON
std::string_view kind_name(LinkKind kind);  // "pci", "nvlink", "interconnect"
std::string_view port_state_name(PortState state);

// "GPU 0", "NIC 3", "NUMA 1", "switch 0000:19:00.0": how people are told of a node.
std::string label(const TopologyGraph& graph, NodeId id);

// Every byte outside printable ASCII becomes '?', and what is longer than a name should be is cut: a file's text goes to
// terminals and drawings.
std::string printable(std::string_view text);

}  // namespace gimbal
