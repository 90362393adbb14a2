// The hierarchical all-reduce: [reduce-scatter in the node] -> [all-reduce between the nodes, on every rail] -> [all-gather in
// the node]. Every byte crosses the links between nodes as often as an all-reduce over the nodes alone needs, divided among the
// rails; pieces follow one another through the three parts.
//
// 2 nodes {0, 1} and {2, 3}; slices 0 and 1, in two parts each between the nodes (+ = added there):
//   in the node     0→1: slice 1   1→0: slice 0   2→3: slice 1   3→2: slice 0
//   rail 0          0→2: 0b   2→0: 0a   then 0→2: 0a+   2→0: 0b+
//   rail 1          1→3: 1b   3→1: 1a   then 1→3: 1a+   3→1: 1b+
//   in the node     0→1: slice 0   1→0: slice 1   2→3: slice 0   3→2: slice 1
#include <algorithm>
#include <bit>
#include <memory>

#include "collectives/algorithms.h"
#include "collectives/builder.h"
#include "collectives/left_complete_tree.h"
#include "collectives/rank_order_sum.h"
#include "collectives/stages.h"

namespace gimbal {
namespace {

// One rank's place in its node, and the slices that each member carries, in units.
class Place {
 public:
  Place(const NodeShape& shape, Rank rank, uint32_t units_per_slice)
      : shape_(&shape), node_(shape.node_of(rank)), local_(shape.local_rank(rank)), units_(units_per_slice) {}

  [[nodiscard]] const NodeShape& shape() const { return *shape_; }
  [[nodiscard]] Rank node() const { return node_; }
  [[nodiscard]] Rank local() const { return local_; }
  [[nodiscard]] Rank size() const { return shape_->size_of(node_); }
  [[nodiscard]] Rank member(Rank local) const { return shape_->members(node_)[static_cast<size_t>(local)]; }

  [[nodiscard]] Units units(Rank slice) const { return {static_cast<uint32_t>(slice) * units_, units_}; }
  // Calls body(slice, units) for the slices that a member carries.
  template <typename Body>
  void for_each_slice(Rank local, const Body& body) const {
    for (Rank slice = local; slice < shape_->slices(); slice += size()) {
      body(slice, units(slice));
    }
  }

 private:
  const NodeShape* shape_;
  Rank node_;
  Rank local_;
  uint32_t units_;
};

// Every member adds its slices, from all members in rank order: one hop. All send everybody's first slice before anybody's
// second, as it is received: with a short window a member would else wait for one that waits for it.
void add_directly(ScheduleBuilder& builder, const Place& place, BufferId dst) {
  for (Rank round = 0; round < place.shape().slices(); round += place.size()) {
    for (Rank i = 1; i < place.size(); ++i) {
      const Rank to = (place.local() + i) % place.size();
      if (round + to < place.shape().slices()) builder.send(place.member(to), place.units(round + to), BufferId::kInput);
    }
  }
  const auto peer = [&](Rank source) { return place.member(source); };
  place.for_each_slice(place.local(),
                       [&](Rank, Units units) { add_in_rank_order(builder, place.size(), place.local(), peer, units, dst); });
}

// The same by recursive halving, nearest member first, so that it is added along the tree of left_complete_tree.h. For a power
// of two.
void add_by_halving(ScheduleBuilder& builder, const Place& place, BufferId dst) {
  for (Rank distance = 1; distance < place.size(); distance *= 2) {
    const Rank peer = place.local() ^ distance;
    const Rank low_bits = 2 * distance - 1;
    const BufferId src = distance == 1 ? BufferId::kInput : BufferId::kScratch;
    const Payload payload = distance == 1 ? Payload::kRaw : Payload::kPartial;
    const BufferId sum = 2 * distance == place.size() ? dst : BufferId::kScratch;
    for (Rank local = peer & low_bits; local < place.size(); local += 2 * distance) {
      place.for_each_slice(local, [&](Rank, Units units) { builder.send(place.member(peer), units, src); });
    }
    for (Rank local = place.local() & low_bits; local < place.size(); local += 2 * distance) {
      place.for_each_slice(local,
                           [&](Rank, Units units) { builder.recv_reduce(place.member(peer), units, payload, src, sum); });
    }
  }
}

// Every member sends its slices to all.
void gather(ScheduleBuilder& builder, const Place& place) {
  for (Rank i = 1; i < place.size(); ++i) {
    const Rank to = (place.local() + i) % place.size();
    const Rank from = (place.local() - i + place.size()) % place.size();
    place.for_each_slice(place.local(), [&](Rank, Units units) { builder.send(place.member(to), units, BufferId::kOutput); });
    place.for_each_slice(
        from, [&](Rank, Units units) { builder.recv(place.member(from), units, Payload::kFinal, BufferId::kOutput); });
  }
}

enum class NodeSum : uint8_t { kDirect, kHalvingIfPossible };

// How the nodes exchange a slice: as so many units, by these stages.
struct Between {
  uint32_t units;
  std::vector<Stage> (*stages)(Rank nranks, Rank rank);
  NodeSum node_sum = NodeSum::kDirect;
};

Stage on_rails(const Place& place, const Stage& stage) {
  return {stage.lag + 1, [place, stage](ScheduleBuilder& builder) {
            place.for_each_slice(place.local(), [&](Rank slice, Units units) {
              builder.enter_rail({&place.shape(), slice, units.first}, place.node());
              stage.record(builder);
              builder.leave_rail();
            });
          }};
}

Schedule all_reduce(const CollectiveSpec& spec, const NodeShape& shape, Rank rank, const Between& between) {
  const Place place(shape, rank, between.units);
  const auto slices = static_cast<uint32_t>(shape.slices());
  const bool is_one_node = shape.nodes() == 1;
  if (spec.nranks == 1) {
    return build_lanes(spec, slices * between.units, [&](ScheduleBuilder& builder) {
      builder.copy({0, slices * between.units}, BufferId::kInput, BufferId::kOutput);
    });
  }
  const bool halves =
      between.node_sum == NodeSum::kHalvingIfPossible && std::has_single_bit(static_cast<uint32_t>(place.size()));
  std::vector<Stage> stages = {{0, [=](ScheduleBuilder& builder) {
                                  const BufferId dst = is_one_node ? BufferId::kOutput : BufferId::kScratch;
                                  if (place.size() > 1) (halves ? add_by_halving : add_directly)(builder, place, dst);
                                }}};
  uint32_t last = 0;
  if (!is_one_node) {
    for (const Stage& stage : between.stages(shape.nodes(), place.node())) {
      stages.push_back(on_rails(place, stage));
      last = std::max(last, stages.back().lag);
    }
  }
  stages.push_back({last + 1, [=](ScheduleBuilder& builder) { gather(builder, place); }});
  return build_waves(spec, slices * between.units, stages);
}

// The shape of the spec; without one every rank is a node of its own.
template <typename Body>
Schedule with_shape(const CollectiveSpec& spec, const Body& body) {
  return spec.nodes != nullptr ? body(*spec.nodes) : body(NodeShape::uniform(spec.nranks, 1));
}

}  // namespace

Schedule hier_ring_all_reduce(const CollectiveSpec& spec, Rank rank) {
  return with_shape(spec, [&](const NodeShape& shape) {
    return all_reduce(spec, shape, rank, {static_cast<uint32_t>(shape.nodes()), ring_all_reduce_stages});
  });
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
  return with_shape(spec, [&](const NodeShape& shape) { return all_reduce(spec, shape, rank, {2, double_tree_stages}); });
}

Schedule hier_all_pairs_all_reduce(const CollectiveSpec& spec, Rank rank) {
  return with_shape(spec, [&](const NodeShape& shape) {
    return all_reduce(spec, shape, rank, {static_cast<uint32_t>(shape.nodes()), all_pairs_all_reduce_stages});
  });
}

}  // namespace gimbal
