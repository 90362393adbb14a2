// Many machines of one kind as the simulator's links and parts: what a message passes between two ranks, and what it shares
// with others (the NIC of a rail, a GPU's port, a machine's memory).
#pragma once

#include <cstdint>

#include "base/cost_inputs.h"
#include "collectives/node_shape.h"
#include "collectives/simulator.h"

namespace gimbal {

class Cluster {
 public:
  // `inputs` says what one machine and its rails are, with ranks_per_node set.
  Cluster(CostInputs inputs, Rank nodes);

  [[nodiscard]] const CostInputs& inputs() const { return inputs_; }
  [[nodiscard]] const NodeShape& shape() const { return shape_; }

  // For messages of this many bytes in all buffers of a rank, which decides whether they stay in a cache. Refers to the
  // cluster.
  [[nodiscard]] SimulationInput simulation_input(size_t chunk_bytes, double bytes_per_rank) const;

 private:
  [[nodiscard]] Passage passage(Rank from, Rank to, double copy_gbps, double reduce_gbps) const;
  [[nodiscard]] int32_t rail_part(Rank rank, bool inwards) const;
  [[nodiscard]] int32_t port_part(Rank rank, bool inwards) const;
  [[nodiscard]] int32_t memory_part(Rank rank) const;
  [[nodiscard]] std::vector<double> part_gbps() const;

  CostInputs inputs_;
  NodeShape shape_;
};

// Bytes that the busiest rail of a machine sends, and the busiest pair of ranks of one machine, in the whole operation.
struct ClusterLoad {
  uint64_t rail_bytes = 0;
  uint64_t pair_bytes = 0;
};
ClusterLoad load_of(const Cluster& cluster, const Simulation& simulation, Rank period);

}  // namespace gimbal
