// How two parts of the machine reach each other: the class, the way, and what it costs.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "base/link_cost.h"
#include "topology/graph.h"

namespace gimbal {

// Best first. Names and meaning are those of the tools that people know; NVL is any direct link between GPUs (NVLink, xGMI) or
// one through NVSwitches.
enum class PathClass : uint8_t {
  kLoc,  // the same device, or the same NUMA node
  kNvl,
  kPix,  // one PCI switch
  kPxb,  // several PCI switches, no host bridge
  kPhb,  // a host bridge, within what the NUMA node is near to; unknown NUMA nodes count as near
  kSys,  // between NUMA nodes
  kNet,  // between machines
};

std::string_view path_class_name(PathClass path_class);  // "LOC", "NVL", ...

struct Path {
  PathClass path_class = PathClass::kNet;
  std::vector<NodeId> nodes;  // from one end to the other, both included; only the ends where the way between is not known
  double bandwidth_gbps = 0;  // of its narrowest link; 0: unknown
  double latency_us = 0;
};

LinkCost link_cost(const Path& path);

// Answers for one graph, which must outlive it and stay as it is.
class PathFinder {
 public:
  explicit PathFinder(const TopologyGraph& graph);

  // Between GPUs, NICs, NVSwitches, PCI switches, host bridges and NUMA nodes.
  [[nodiscard]] Path find(NodeId a, NodeId b) const;

  // The NICs with the best path to the device: one, or several that are equally near (same class and bandwidth), by index.
  // Host staging ignored: the way over PCI counts, not NVLink to another GPU.
  [[nodiscard]] std::vector<NodeId> nearest_nics(NodeId device) const;

 private:
  // All of a machine's NVSwitches are one fabric: in every machine built so far each reaches all GPUs, and drivers do not
  // report the links between them.
  struct Fabric {
    NodeId first_switch = kNoNode;
    double bandwidth_gbps = 0;  // of all the device's links into it
  };

  [[nodiscard]] Path nvlink_path(NodeId a, NodeId b) const;
  [[nodiscard]] Path pci_path(NodeId a, NodeId b) const;
  void add_interconnect(Path& path, NodeId a, NodeId b) const;
  const TopologyGraph& graph_;
  std::vector<const TopologyLink*> uplink_;                                // by node: its PCI link to its parent, or null
  std::map<std::pair<NodeId, NodeId>, double> nvlinks_;                    // GB/s of direct links between GPUs, both orders
  std::map<NodeId, Fabric> fabric_;                                        // by device
  std::map<std::pair<NodeId, NodeId>, const TopologyLink*> interconnect_;  // NUMA nodes, both orders
};

// "near" of two sets of NUMA nodes: they share one, or one of them is unknown.
bool is_near(const std::vector<int32_t>& a, const std::vector<int32_t>& b);

}  // namespace gimbal
