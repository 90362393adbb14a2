#include "collectives/algorithm.h"

#include <algorithm>
#include <array>
#include <limits>

#include "collectives/algorithms.h"
#include "collectives/chunk_space.h"
#include "collectives/node_shape.h"
#include "collectives/passes.h"

namespace gimbal {
namespace {

constexpr std::array kAlgorithms = {
    Algorithm{"ring", Collective::kAllReduce, ring_all_reduce,
              "reduce-scatter and all-gather around a ring: fewest bytes, 2(n-1) hops; odd channels turn the other way", 1,
              true},
    Algorithm{"halving_doubling", Collective::kAllReduce, halving_doubling_all_reduce,
              "recursive halving and doubling, nearest first: log2 n hops, added along the left-complete tree"},
    Algorithm{"double_tree", Collective::kAllReduce, double_tree_all_reduce,
              "two binary trees, each rank inner in one only: log2 n hops at full bandwidth, pipelined over pieces", 2},
    Algorithm{"all_pairs", Collective::kAllReduce, all_pairs_all_reduce,
              "every rank adds one part of all inputs in rank order and sends the result to all: two hops"},
    Algorithm{"exchange", Collective::kAllReduce, exchange_all_reduce,
              "every rank sends all of its vector to all and adds all in rank order: one hop"},
    Algorithm{"hier_ring", Collective::kAllReduce, hier_ring_all_reduce,
              "reduce-scatter in the node, rings between the nodes on every rail, all-gather in the node", 1, true},
    Algorithm{"hier_halving_doubling", Collective::kAllReduce, hier_halving_doubling_all_reduce,
              "the same with halving-doubling between the nodes: log2 hops, added along the left-complete tree"},
    Algorithm{"hier_double_tree", Collective::kAllReduce, hier_double_tree_all_reduce,
              "the same with two trees between the nodes: log2 hops at full bandwidth, pipelined over pieces", 2},
    Algorithm{"hier_all_pairs", Collective::kAllReduce, hier_all_pairs_all_reduce,
              "the same with a direct exchange between the nodes: two hops each"},
    Algorithm{"ring", Collective::kReduceScatter, ring_reduce_scatter, "partials around a ring: n-1 hops", 1, true},
    Algorithm{"halving", Collective::kReduceScatter, halving_reduce_scatter,
              "recursive halving, nearest first: log2 n hops, added along the left-complete tree"},
    Algorithm{"all_pairs", Collective::kReduceScatter, all_pairs_reduce_scatter,
              "every rank gets its block from all and adds in rank order: one hop"},
    Algorithm{"hier_ring", Collective::kReduceScatter, hier_ring_reduce_scatter,
              "added in the node, then around rings between the nodes on every rail", 1, true},
    Algorithm{"hier_halving", Collective::kReduceScatter, hier_halving_reduce_scatter,
              "added in the node, then halving between the nodes: along the left-complete tree"},
    Algorithm{"hier_all_pairs", Collective::kReduceScatter, hier_all_pairs_reduce_scatter,
              "added in the node, then every node's block from all nodes: one hop each"},
    Algorithm{"ring", Collective::kAllGather, ring_all_gather, "blocks around a ring: n-1 hops", 1, true},
    Algorithm{"bruck", Collective::kAllGather, bruck_all_gather, "doubling for any number of ranks: log2 n hops"},
    Algorithm{"all_pairs", Collective::kAllGather, all_pairs_all_gather, "every rank sends its block to all: one hop", 1, true},
    Algorithm{"hier_ring", Collective::kAllGather, hier_ring_all_gather,
              "around rings between the nodes on every rail, then to all in the node", 1, true},
    Algorithm{"hier_all_pairs", Collective::kAllGather, hier_all_pairs_all_gather,
              "to the same place on all nodes, then to all in the node: one hop each", 1, true},
    Algorithm{"tree", Collective::kBroadcast, tree_broadcast, "binomial tree, farthest first: log2 n hops"},
    Algorithm{"chain", Collective::kBroadcast, chain_broadcast,
              "from rank to rank, pipelined over pieces: fewest bytes per rank"},
    Algorithm{"hier_tree", Collective::kBroadcast, hier_tree_broadcast,
              "dealt out in the root's node, down trees between the nodes on every rail, then to all in the node"},
    Algorithm{"hier_chain", Collective::kBroadcast, hier_chain_broadcast,
              "the same along chains between the nodes, pipelined over pieces"},
    Algorithm{"tree", Collective::kReduce, tree_reduce, "the left-complete tree, with the root on its path: log2 n hops"},
    Algorithm{"chain", Collective::kReduce, chain_reduce, "from rank to rank, pipelined over pieces: fewest bytes per rank"},
    Algorithm{"all_pairs", Collective::kAllToAll, all_pairs_all_to_all, "every rank sends to all, next rank first: one hop", 1,
              true},
    Algorithm{"linear", Collective::kGather, linear_gather, "every rank sends its block to the root"},
    Algorithm{"linear", Collective::kScatter, linear_scatter, "the root sends every rank its block"},
};

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective == schedule_collective(collective) && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

std::vector<const Algorithm*> algorithms_for(Collective collective) {
  std::vector<const Algorithm*> found;
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective == schedule_collective(collective)) found.push_back(&algorithm);
  }
  return found;
}

std::string admits(const Algorithm& algorithm, const CollectiveSpec& spec) {
  if (schedule_collective(spec.collective) != algorithm.collective) {
    return std::string(algorithm.name) + " is a schedule of " + std::string(collective_name(algorithm.collective)) +
           ", not of " + std::string(collective_name(spec.collective));
  }
  if (spec.nranks < 1) return "nranks is " + std::to_string(spec.nranks) + "; allowed: at least 1";
  if (spec.root < 0 || spec.root >= spec.nranks) {
    return "root is " + std::to_string(spec.root) + "; allowed: 0 to " + std::to_string(spec.nranks - 1);
  }
  if (spec.channels < 1) return "channels is 0; allowed: 1 to 255";
  if (spec.pieces < 1) return "pieces is 0; allowed: at least 1";
  if (spec.nodes != nullptr && spec.nodes->nranks() != spec.nranks) {
    return "nodes of " + std::to_string(spec.nodes->nranks()) + " ranks; allowed: of all " + std::to_string(spec.nranks);
  }
  // No builder cuts a lane into more units than twice the ranks, than twice the nodes for every slice, or than the blocks there
  // are; step indices are int32.
  const auto n = static_cast<uint64_t>(spec.nranks);
  const uint64_t slices = spec.nodes == nullptr ? 1 : static_cast<uint64_t>(spec.nodes->slices());
  const uint64_t nodes = spec.nodes == nullptr ? n : static_cast<uint64_t>(spec.nodes->nodes());
  const uint64_t units = algorithm.collective == Collective::kAllToAll ? n * n : std::max(2 * n, 2 * slices * nodes);
  const uint64_t lanes = uint64_t{spec.channels} * spec.pieces;
  if (lanes > std::numeric_limits<int32_t>::max() / units) {
    return std::to_string(spec.channels) + " channels of " + std::to_string(spec.pieces) + " pieces over " +
           std::to_string(spec.nranks) + " ranks are more than 2^31 chunks";
  }
  return "";
}

Schedule build_schedule(const Algorithm& algorithm, const CollectiveSpec& spec, Rank rank, Fusion fusion) {
  GIMBAL_DCHECK(admits(algorithm, spec).empty());
  Schedule schedule = algorithm.build(spec, rank);
  return link(fusion == Fusion::kFused ? fuse(schedule) : std::move(schedule));
}

std::vector<Schedule> build_all(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion) {
  std::vector<Schedule> schedules;
  schedules.reserve(static_cast<size_t>(spec.nranks));
  for (Rank rank = 0; rank < spec.nranks; ++rank) schedules.push_back(build_schedule(algorithm, spec, rank, fusion));
  return schedules;
}

}  // namespace gimbal
