// The hierarchical algorithms. All-reduce: [reduce-scatter in the node] -> [all-reduce between the nodes, on every rail] ->
// [all-gather in the node]. Every byte crosses the links between nodes as often as an all-reduce over the nodes alone needs,
// divided among the rails; pieces follow one another through the three parts. The others are parts of it: a reduce-scatter ends
// after the rails, an all-gather begins with them, a broadcast deals slices out in the root's node instead of adding.
//
// 2 nodes {0, 1} and {2, 3}; slices 0 and 1, in two parts each between the nodes (+ = added there):
//   in the node     0→1: slice 1   1→0: slice 0   2→3: slice 1   3→2: slice 0
//   rail 0          0→2: 0b   2→0: 0a   then 0→2: 0a+   2→0: 0b+
//   rail 1          1→3: 1b   3→1: 1a   then 1→3: 1a+   3→1: 1b+
//   in the node     0→1: slice 0   1→0: slice 1   2→3: slice 0   3→2: slice 1
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/builder.h"
#include "collectives/left_complete_tree.h"
#include "collectives/node_phases.h"
#include "collectives/stages.h"

namespace gimbal {
namespace {

enum class NodeSum : uint8_t { kDirect, kHalvingIfPossible };

// The stage in which the node adds; without effect in a node of one.
Stage node_sum(const NodePlace& place, NodeSum how, BufferId dst) {
  const bool halves = how == NodeSum::kHalvingIfPossible && std::has_single_bit(static_cast<uint32_t>(place.size()));
  return {0, [=](ScheduleBuilder& builder) {
            if (place.size() > 1) (halves ? add_in_node_by_halving : add_in_node)(builder, place, dst);
          }};
}

// Appends the stages between the nodes, on all rails. Returns when the last of them comes.
uint32_t add_between(std::vector<Stage>& stages, const NodePlace& place, const std::vector<Stage>& between) {
  uint32_t last = 0;
  for (const Stage& stage : between) {
    stages.push_back(on_rails(place, stage));
    last = std::max(last, stages.back().lag);
  }
  return last;
}

Schedule only_copy(const CollectiveSpec& spec, uint32_t units) {
  return build_lanes(spec, units, [&](ScheduleBuilder& builder) {
    builder.copy({0, units}, BufferId::kInput, BufferId::kOutput);
  });
}

// How the nodes exchange a slice: as so many units, by these stages.
struct Between {
  uint32_t units;
  std::vector<Stage> (*stages)(Rank nranks, Rank rank);
  NodeSum node_sum = NodeSum::kDirect;
};

Schedule all_reduce(const CollectiveSpec& spec, const NodeShape& shape, Rank rank, const Between& between) {
  const uint32_t units = static_cast<uint32_t>(shape.slices()) * between.units;
  if (spec.nranks == 1) return only_copy(spec, units);
  const NodePlace place(spec, shape, rank, between.units);
  const bool is_one_node = shape.nodes() == 1;
  std::vector<Stage> stages = {node_sum(place, between.node_sum, is_one_node ? BufferId::kOutput : BufferId::kScratch)};
  const uint32_t last = is_one_node ? 0 : add_between(stages, place, between.stages(shape.nodes(), place.node()));
  stages.push_back({last + 1, [=](ScheduleBuilder& builder) { spread_in_node(builder, place); }});
  return build_waves(spec, units, stages);
}

Schedule reduce_scatter(const CollectiveSpec& spec, const NodeShape& shape, Rank rank, const Between& between) {
  if (spec.nranks == 1) return only_copy(spec, 1);
  const NodePlace place(spec, shape, rank);
  const bool is_one_node = shape.nodes() == 1;
  std::vector<Stage> stages = {node_sum(place, between.node_sum, is_one_node ? BufferId::kOutput : BufferId::kScratch)};
  if (!is_one_node) add_between(stages, place, between.stages(shape.nodes(), place.node()));
  return build_waves(spec, between.units, stages);
}

Schedule all_gather(const CollectiveSpec& spec, const NodeShape& shape, Rank rank, const Between& between) {
  const NodePlace place(spec, shape, rank);
  std::vector<Stage> stages;
  if (shape.nodes() > 1) add_between(stages, place, between.stages(shape.nodes(), place.node()));
  stages.push_back({2, [=](ScheduleBuilder& builder) {
                      spread_in_node(builder, place);
                      builder.copy(unit(rank), BufferId::kInput, BufferId::kOutput);
                    }});
  return build_waves(spec, between.units, stages);
}

// The root gives each member of its node the slices that this carries.
void deal_out(ScheduleBuilder& builder, const NodePlace& place, Rank root) {
  const Rank self = place.member(place.local());
  if (self != root) {
    place.for_each_part(place.local(), [&](Units units) { builder.recv(root, units, Payload::kFinal, BufferId::kOutput); });
    return;
  }
  for (Rank round = 0; round < place.rounds(); ++round) {
    for (Rank local = 0; local < place.size(); ++local) {
      const auto units = place.part(round, local);
      if (units && local != place.local()) builder.send(place.member(local), *units, BufferId::kInput);
    }
  }
}

using BroadcastStages = std::vector<Stage> (*)(Rank nranks, Rank root, Rank rank, BufferId at_root);

Schedule broadcast(const CollectiveSpec& spec, const NodeShape& shape, Rank rank, BroadcastStages between) {
  const auto units = static_cast<uint32_t>(shape.slices());
  const NodePlace place(spec, shape, rank);
  const Rank root = spec.root;
  const Rank root_node = shape.node_of(root);
  const BufferId at_root = rank == root ? BufferId::kInput : BufferId::kOutput;
  std::vector<Stage> stages;
  if (place.node() == root_node) stages.push_back({0, [=](ScheduleBuilder& builder) { deal_out(builder, place, root); }});
  if (shape.nodes() > 1) add_between(stages, place, between(shape.nodes(), root_node, place.node(), at_root));
  stages.push_back({2, [=](ScheduleBuilder& builder) {
                      spread_in_node(builder, place, place.node() == root_node ? root : kNoRank);
                      if (rank == root) builder.copy({0, units}, BufferId::kInput, BufferId::kOutput);
                    }});
  return build_waves(spec, units, stages);
}

// The shape of the spec; without one every rank is a node of its own.
template <typename Body>
Schedule with_shape(const CollectiveSpec& spec, const Body& body) {
  return spec.nodes != nullptr ? body(*spec.nodes) : body(NodeShape::uniform(spec.nranks, 1));
}

using Part = Schedule (*)(const CollectiveSpec&, const NodeShape&, Rank, const Between&);

// With as many units between the nodes as there are nodes.
Schedule by_nodes(Part part, const CollectiveSpec& spec, Rank rank, const Between& between) {
  return with_shape(spec, [&](const NodeShape& shape) {
    Between with_units = between;
    if (with_units.units == 0) with_units.units = static_cast<uint32_t>(shape.nodes());
    return part(spec, shape, rank, with_units);
  });
}

uint32_t block_units(const CollectiveSpec& spec) { return block_count(spec.collective, spec.nranks); }

}  // namespace

Schedule hier_ring_all_reduce(const CollectiveSpec& spec, Rank rank) {
  return by_nodes(all_reduce, spec, rank, {0, ring_all_reduce_stages});
}

// In a node of 2^k members these are added along the left-complete tree, too: with as many consecutive ranks on every node the
// whole sum is that of the deterministic mode.
Schedule hier_halving_doubling_all_reduce(const CollectiveSpec& spec, Rank rank) {
  return with_shape(spec, [&](const NodeShape& shape) {
    const uint32_t units = LeftCompleteTree(shape.nodes()).values();
    return all_reduce(spec, shape, rank, {units, halving_doubling_stages, NodeSum::kHalvingIfPossible});
  });
}

Schedule hier_double_tree_all_reduce(const CollectiveSpec& spec, Rank rank) {
  return by_nodes(all_reduce, spec, rank, {2, double_tree_stages});
}

Schedule hier_all_pairs_all_reduce(const CollectiveSpec& spec, Rank rank) {
  return by_nodes(all_reduce, spec, rank, {0, all_pairs_all_reduce_stages});
}

Schedule hier_ring_reduce_scatter(const CollectiveSpec& spec, Rank rank) {
  return by_nodes(reduce_scatter, spec, rank, {block_units(spec), ring_reduce_scatter_stages});
}

Schedule hier_halving_reduce_scatter(const CollectiveSpec& spec, Rank rank) {
  return by_nodes(reduce_scatter, spec, rank, {block_units(spec), halving_stages, NodeSum::kHalvingIfPossible});
}

Schedule hier_all_pairs_reduce_scatter(const CollectiveSpec& spec, Rank rank) {
  return by_nodes(reduce_scatter, spec, rank, {block_units(spec), all_pairs_reduce_scatter_stages});
}

Schedule hier_ring_all_gather(const CollectiveSpec& spec, Rank rank) {
  return by_nodes(all_gather, spec, rank, {block_units(spec), ring_all_gather_stages});
}

Schedule hier_all_pairs_all_gather(const CollectiveSpec& spec, Rank rank) {
  return by_nodes(all_gather, spec, rank, {block_units(spec), all_pairs_all_gather_stages});
}

Schedule hier_tree_broadcast(const CollectiveSpec& spec, Rank rank) {
  return with_shape(spec, [&](const NodeShape& shape) { return broadcast(spec, shape, rank, tree_broadcast_stages); });
}

Schedule hier_chain_broadcast(const CollectiveSpec& spec, Rank rank) {
  return with_shape(spec, [&](const NodeShape& shape) { return broadcast(spec, shape, rank, chain_broadcast_stages); });
}

}  // namespace gimbal
