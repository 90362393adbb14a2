#include "tools/gimbal_plan/cluster.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace gimbal {
namespace {

// A slot of an endpoint: what a fused step waits for before it forwards (GIMBAL_SLOT_BYTES' default).
constexpr size_t kSliceBytes = size_t{32} << 10;

bool is_shared_memory(LinkClass link_class) {
  return link_class == LinkClass::kCache || link_class == LinkClass::kNuma || link_class == LinkClass::kSocket;
}

double mixed(double cached_gbps, double memory_gbps, double cached_share) {
  return 1 / (cached_share / cached_gbps + (1 - cached_share) / memory_gbps);
}

}  // namespace

Cluster::Cluster(CostInputs inputs, Rank nodes)
    : inputs_(std::move(inputs)), shape_(NodeShape::uniform(nodes, inputs_.ranks_per_node)) {}

// Numbers of parts: all rails of all machines, out and in; then all ports of all ranks, out and in; then every machine's
// memory.
int32_t Cluster::rail_part(Rank rank, bool inwards) const {
  return 2 * (node_of(inputs_, rank) * inputs_.rails + rail_of(inputs_, rank)) + (inwards ? 1 : 0);
}

int32_t Cluster::port_part(Rank rank, bool inwards) const {
  return 2 * (shape_.nodes() * inputs_.rails + rank) + (inwards ? 1 : 0);
}

int32_t Cluster::memory_part(Rank rank) const {
  return 2 * (shape_.nodes() * inputs_.rails + shape_.nranks()) + node_of(inputs_, rank);
}

std::vector<double> Cluster::part_gbps() const {
  const auto nodes = static_cast<size_t>(shape_.nodes());
  std::vector<double> gbps(2 * nodes * static_cast<size_t>(inputs_.rails),
                           inputs_.links[static_cast<size_t>(LinkClass::kNetwork)].bandwidth_gbps);
  for (Rank rank = 0; rank < shape_.nranks(); ++rank) {
    // A port is as fast as the fastest link that it serves.
    double port = 0;
    for (Rank peer = 0; peer < inputs_.ranks_per_node; ++peer) {
      const Rank local = rank % inputs_.ranks_per_node;
      if (peer != local) port = std::max(port, link_cost(inputs_, local, peer).bandwidth_gbps);
    }
    gbps.insert(gbps.end(), 2, port);
  }
  gbps.insert(gbps.end(), nodes, inputs_.memory.total_gbps);
  return gbps;
}

Passage Cluster::passage(Rank from, Rank to, double copy_gbps, double reduce_gbps) const {
  const LinkClass way = link_class(inputs_, from, to);
  Passage passage;
  passage.reduce_gbps = reduce_gbps;
  if (way == LinkClass::kNetwork) {
    passage.sender_part = rail_part(from, false);
    passage.receiver_part = rail_part(to, true);
  } else if (is_shared_memory(way)) {
    if (inputs_.memory.total_gbps > 0) passage.sender_part = memory_part(from);
    passage.copy_in_gbps = copy_gbps;
    passage.copy_out_gbps = copy_gbps;
  } else {
    passage.sender_part = port_part(from, false);
    passage.receiver_part = port_part(to, true);
  }
  return passage;
}

SimulationInput Cluster::simulation_input(size_t chunk_bytes, double bytes_per_rank) const {
  const double touched = std::max(1.0, bytes_per_rank * inputs_.ranks_per_node);
  const double cached = std::min(1.0, static_cast<double>(inputs_.cache_bytes) / touched);
  // Ranks that share CPUs share their time.
  const double cpu_share = std::min(1.0, inputs_.cpus / inputs_.ranks_per_node);
  const double copy = mixed(inputs_.memory.cached_copy_gbps, inputs_.memory.copy_gbps, cached) * cpu_share;
  const double reduce = mixed(inputs_.memory.cached_reduce_gbps, inputs_.memory.reduce_gbps, cached) * cpu_share;
  SimulationInput input;
  input.link = [this](Rank from, Rank to) { return link_cost(inputs_, from, to); };
  input.chunk_bytes = [chunk_bytes](uint32_t) { return chunk_bytes; };
  input.slice_bytes = kSliceBytes;
  input.passage = [this, copy, reduce](Rank from, Rank to) { return passage(from, to, copy, reduce); };
  input.part_gbps = part_gbps();
  input.copy_gbps = copy;
  input.reduce_gbps = reduce;
  return input;
}

ClusterLoad load_of(const Cluster& cluster, const Simulation& simulation, Rank period) {
  const CostInputs& inputs = cluster.inputs();
  ClusterLoad load;
  std::map<std::pair<int32_t, int32_t>, uint64_t> rails;  // by machine and rail
  for (const LinkLoad& link : simulation.links) {
    if (link_class(inputs, link.from, link.to) != LinkClass::kNetwork) {
      load.pair_bytes = std::max(load.pair_bytes, link.bytes);
      continue;
    }
    // Where one machine stands for all, what comes to it from all others' rails is what leaves by its own.
    const int32_t machine = period > 0 ? 0 : node_of(inputs, link.from);
    load.rail_bytes = std::max(load.rail_bytes, rails[{machine, rail_of(inputs, link.from)}] += link.bytes);
  }
  return load;
}

}  // namespace gimbal
