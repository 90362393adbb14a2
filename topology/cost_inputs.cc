#include "topology/cost_inputs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "topology/paths.h"

namespace gimbal {
namespace {

constexpr double kBitsPerByte = 8;
// Eight channels of DDR4-3200 carry 204.8 GB/s (JESD79-4); a copy takes a read and a write of each byte.
constexpr double kPackageCopyGbps = 100;
// HBM2e of an A100 carries 1555 GB/s (its data sheet); halved for a copy.
constexpr MemoryCost kGpuMemory = {
    .copy_gbps = 750, .cached_copy_gbps = 750, .reduce_gbps = 750, .cached_reduce_gbps = 750, .total_gbps = 0};
// A verbs message needs half a microsecond of a CPU and about two to arrive; TCP's two system calls and its stack ten times
// that.
constexpr LinkCost kVerbs = {2, 0, 0.5};
constexpr LinkCost kTcp = {20, 0, 5};
// A port that does not say how fast it is: 10 Gbit/s, the slowest that collectives are usually run over.
constexpr double kUnknownPortGbits = 10;

// The outermost cache around a PU; what holds its core where no cache is known.
NodeId cache_group(const TopologyGraph& graph, NodeId pu) {
  NodeId group = ancestor_of_kind(graph, pu, NodeKind::kCache);
  if (group == kNoNode) {
    const NodeId package = ancestor_of_kind(graph, pu, NodeKind::kPackage);
    return package == kNoNode ? machine_of(graph, pu) : package;
  }
  for (NodeId outer = group; outer != kNoNode; outer = ancestor_of_kind(graph, outer, NodeKind::kCache)) group = outer;
  return group;
}

// The CPUs of the first machine that ranks may run on, one of each core before the second of any.
std::vector<NodeId> cpus_in_order(const TopologyGraph& graph) {
  std::map<NodeId, int> taken;  // by core
  std::vector<std::pair<int, NodeId>> ordered;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    const TopologyNode& node = graph.nodes[id];
    if (node.kind != NodeKind::kPu || !node.allowed || machine_of(graph, id) != 0) continue;
    ordered.emplace_back(taken[ancestor_of_kind(graph, id, NodeKind::kCore)]++, id);
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<NodeId> cpus;
  cpus.reserve(ordered.size());
  for (const auto& [turn, id] : ordered) cpus.push_back(id);
  return cpus;
}

std::vector<NodeId> of_first_machine(const TopologyGraph& graph, NodeKind kind) {
  std::vector<NodeId> ids = nodes_of_kind(graph, kind);
  ids.erase(std::remove_if(ids.begin(), ids.end(), [&](NodeId id) { return machine_of(graph, id) != 0; }), ids.end());
  return ids;
}

// Deals the ranks of a machine out to these places in turn, and numbers those that get one.
std::vector<NodeId> deal_out(const std::vector<NodeId>& groups, CostInputs& inputs) {
  std::vector<NodeId> places;
  inputs.place_of.clear();
  for (Rank local = 0; local < inputs.ranks_per_node; ++local) {
    const NodeId group = groups[static_cast<size_t>(local) % groups.size()];
    const auto found = std::find(places.begin(), places.end(), group);
    inputs.place_of.push_back(static_cast<int32_t>(found - places.begin()));
    if (found == places.end()) places.push_back(group);
  }
  inputs.places = places.size();
  return places;
}

void connect_cpu_places(const TopologyGraph& graph, const std::vector<NodeId>& places, CostInputs& inputs) {
  inputs.link_of.clear();
  for (const NodeId a : places) {
    for (const NodeId b : places) {
      const bool shares_cache = a == b && graph.nodes[a].kind == NodeKind::kCache;
      const bool is_local = is_near(graph.nodes[a].numa, graph.nodes[b].numa);
      inputs.link_of.push_back(shares_cache ? LinkClass::kCache : is_local ? LinkClass::kNuma : LinkClass::kSocket);
    }
  }
}

// The narrowest link between two packages bounds what passes between sockets.
void apply_interconnect(const TopologyGraph& graph, CostInputs& inputs) {
  LinkCost& socket = inputs.links[static_cast<size_t>(LinkClass::kSocket)];
  for (const TopologyLink& link : graph.links) {
    if (link.kind != LinkKind::kInterconnect || link.bandwidth_gbps <= 0) continue;
    socket.bandwidth_gbps = std::min(socket.bandwidth_gbps, link.bandwidth_gbps);
  }
}

void place_on_cpus(const TopologyGraph& graph, CostInputs& inputs) {
  const std::vector<NodeId> cpus = cpus_in_order(graph);
  std::vector<NodeId> groups;
  groups.reserve(cpus.size());
  for (const NodeId cpu : cpus) groups.push_back(cache_group(graph, cpu));
  // A file that tells of devices only: its NUMA nodes stand for CPUs, as many as are needed.
  if (groups.empty()) groups = of_first_machine(graph, NodeKind::kNuma);
  if (groups.empty()) groups.push_back(0);
  const double available = cpus.empty() ? inputs.ranks_per_node : static_cast<double>(cpus.size());
  inputs.cpus = std::min(available, graph.quota_cpus);
  connect_cpu_places(graph, deal_out(groups, inputs), inputs);
  apply_interconnect(graph, inputs);
  uint64_t cache_bytes = 0;
  for (const NodeId group : std::set<NodeId>(groups.begin(), groups.end())) {
    if (graph.nodes[group].kind == NodeKind::kCache) cache_bytes += graph.nodes[group].bytes;
  }
  if (cache_bytes > 0) inputs.cache_bytes = cache_bytes;
  const auto packages = static_cast<double>(of_first_machine(graph, NodeKind::kPackage).size());
  inputs.memory.total_gbps = kPackageCopyGbps * std::max(1.0, packages);
}

LinkClass gpu_link_class(const Path& path) { return path.path_class <= PathClass::kNvl ? LinkClass::kNvlink : LinkClass::kPci; }

void place_on_gpus(const TopologyGraph& graph, const std::vector<NodeId>& gpus, CostInputs& inputs) {
  const PathFinder paths(graph);
  const std::vector<NodeId> places = deal_out(gpus, inputs);
  inputs.link_of.clear();
  for (const NodeId a : places) {
    for (const NodeId b : places) {
      const Path path = paths.find(a, b);
      const LinkClass link_class = gpu_link_class(path);
      inputs.link_of.push_back(link_class);
      if (a == b || path.bandwidth_gbps <= 0) continue;
      LinkCost& cost = inputs.links[static_cast<size_t>(link_class)];
      // All links of a class count as its slowest.
      cost.bandwidth_gbps = cost.bandwidth_gbps > 0 ? std::min(cost.bandwidth_gbps, path.bandwidth_gbps) : path.bandwidth_gbps;
      cost.latency_us = std::max(cost.latency_us, path.latency_us);
    }
  }
  inputs.cpus = inputs.ranks_per_node;
  inputs.memory = kGpuMemory;
}

// Rails: the NICs that are not known to be down, each as fast as the slowest of them.
void apply_network(const TopologyGraph& graph, const LinkCost& given, CostInputs& inputs) {
  double slowest_gbits = std::numeric_limits<double>::infinity();
  int32_t rails = 0;
  bool has_verbs = false;
  for (const NodeId nic : of_first_machine(graph, NodeKind::kNic)) {
    for (const NetPort& port : graph.nodes[nic].ports) {
      if (port.state == PortState::kDown) continue;
      ++rails;
      has_verbs |= !port.gid.empty() || !port.interface.empty();
      slowest_gbits = std::min(slowest_gbits, port.gbits > 0 ? port.gbits : kUnknownPortGbits);
    }
  }
  inputs.rails = std::max(1, rails);
  LinkCost& network = inputs.links[static_cast<size_t>(LinkClass::kNetwork)];
  network = has_verbs ? kVerbs : kTcp;
  network.bandwidth_gbps = (rails > 0 ? slowest_gbits : kUnknownPortGbits) / kBitsPerByte;
  if (given.bandwidth_gbps <= 0) return;
  network.bandwidth_gbps = given.bandwidth_gbps;
  if (given.latency_us > 0) network.latency_us = given.latency_us;
  if (given.overhead_us > 0) network.overhead_us = given.overhead_us;
}

}  // namespace

LinkCost default_link_cost(LinkClass link_class) {
  switch (link_class) {
    // A line passes between two cores under one cache in about 0.1 us, and they stream 25 GB/s (bench/results, node_direct.txt:
    // 8 KiB in 0.42 us, 64 KiB in 2.5). Without a common cache the way is over the memory fabric.
    case LinkClass::kCache:
      return {0.1, 25, 0.05};
    case LinkClass::kNuma:
      return {0.2, 15, 0.05};
    case LinkClass::kSocket:
      return {0.4, 12, 0.05};
    case LinkClass::kNvlink:
    case LinkClass::kPci:
      return {0, 0, 1};  // latency and bandwidth stand in the graph; a kernel's flag costs about a microsecond
    case LinkClass::kNetwork:
      return kTcp;
  }
  return {};
}

Result<CostInputs> cost_inputs(const TopologyGraph& graph, const Placement& placement) {
  CostInputs inputs;
  for (size_t i = 0; i < kLinkClassCount; ++i) inputs.links[i] = default_link_cost(static_cast<LinkClass>(i));
  inputs.ranks_per_node = (placement.ranks + placement.nodes - 1) / placement.nodes;
  if (placement.on_gpus) {
    const std::vector<NodeId> gpus = of_first_machine(graph, NodeKind::kGpu);
    if (gpus.empty()) return Status(Code::kInvalidArgument, "ranks on GPUs: this machine has no GPU");
    place_on_gpus(graph, gpus, inputs);
  } else {
    place_on_cpus(graph, inputs);
  }
  apply_network(graph, placement.network, inputs);
  // Where a file says of neither end how fast its link is.
  for (const LinkClass link_class : {LinkClass::kNvlink, LinkClass::kPci}) {
    LinkCost& cost = inputs.links[static_cast<size_t>(link_class)];
    if (cost.bandwidth_gbps <= 0) cost.bandwidth_gbps = default_link_cost(LinkClass::kSocket).bandwidth_gbps;
  }
  return inputs;
}

}  // namespace gimbal
