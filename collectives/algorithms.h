// The builders behind the registry, one file each. Callers use algorithm.h; only point-to-point is built directly.
#pragma once

#include "collectives/schedule.h"

namespace gimbal {

// ring.cc
Schedule ring_all_reduce(const CollectiveSpec& spec, Rank rank);
Schedule ring_reduce_scatter(const CollectiveSpec& spec, Rank rank);
Schedule ring_all_gather(const CollectiveSpec& spec, Rank rank);

// all_pairs.cc
Schedule all_pairs_all_reduce(const CollectiveSpec& spec, Rank rank);
Schedule exchange_all_reduce(const CollectiveSpec& spec, Rank rank);
Schedule all_pairs_reduce_scatter(const CollectiveSpec& spec, Rank rank);
Schedule all_pairs_all_gather(const CollectiveSpec& spec, Rank rank);
Schedule all_pairs_all_to_all(const CollectiveSpec& spec, Rank rank);

// halving_doubling.cc
Schedule halving_doubling_all_reduce(const CollectiveSpec& spec, Rank rank);
// halving.cc
Schedule halving_reduce_scatter(const CollectiveSpec& spec, Rank rank);
// bruck.cc
Schedule bruck_all_gather(const CollectiveSpec& spec, Rank rank);

// double_tree.cc
Schedule double_tree_all_reduce(const CollectiveSpec& spec, Rank rank);
// tree.cc
Schedule tree_broadcast(const CollectiveSpec& spec, Rank rank);
Schedule tree_reduce(const CollectiveSpec& spec, Rank rank);
// chain.cc
Schedule chain_broadcast(const CollectiveSpec& spec, Rank rank);
Schedule chain_reduce(const CollectiveSpec& spec, Rank rank);
// direct.cc
Schedule linear_gather(const CollectiveSpec& spec, Rank rank);
Schedule linear_scatter(const CollectiveSpec& spec, Rank rank);

// hierarchical.cc
Schedule hier_ring_all_reduce(const CollectiveSpec& spec, Rank rank);
Schedule hier_halving_doubling_all_reduce(const CollectiveSpec& spec, Rank rank);
Schedule hier_double_tree_all_reduce(const CollectiveSpec& spec, Rank rank);
Schedule hier_all_pairs_all_reduce(const CollectiveSpec& spec, Rank rank);
Schedule hier_ring_reduce_scatter(const CollectiveSpec& spec, Rank rank);
Schedule hier_halving_reduce_scatter(const CollectiveSpec& spec, Rank rank);
Schedule hier_all_pairs_reduce_scatter(const CollectiveSpec& spec, Rank rank);
Schedule hier_ring_all_gather(const CollectiveSpec& spec, Rank rank);
Schedule hier_all_pairs_all_gather(const CollectiveSpec& spec, Rank rank);
Schedule hier_tree_broadcast(const CollectiveSpec& spec, Rank rank);
Schedule hier_chain_broadcast(const CollectiveSpec& spec, Rank rank);

// point_to_point.cc: one message per lane, linked. The peers' specs must agree in channels and pieces.
Schedule send_to(Rank peer, const CollectiveSpec& spec);
Schedule recv_from(Rank peer, const CollectiveSpec& spec);

}  // namespace gimbal
