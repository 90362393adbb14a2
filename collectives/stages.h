// The algorithms between equals as stages of one piece, for those who compose them: each rank of the hierarchical algorithms
// runs them on its rails (builder.h). For two ranks and more; units as the flat algorithms have them.
#pragma once

#include <vector>

#include "collectives/builder.h"

namespace gimbal {

std::vector<Stage> ring_all_reduce_stages(Rank nranks, Rank rank);
std::vector<Stage> halving_doubling_stages(Rank nranks, Rank rank);
std::vector<Stage> double_tree_stages(Rank nranks, Rank rank);
std::vector<Stage> all_pairs_all_reduce_stages(Rank nranks, Rank rank);

std::vector<Stage> ring_reduce_scatter_stages(Rank nranks, Rank rank);
std::vector<Stage> halving_stages(Rank nranks, Rank rank);
std::vector<Stage> all_pairs_reduce_scatter_stages(Rank nranks, Rank rank);

// The own block stays in the input: copying it to the output is left to the caller.
std::vector<Stage> ring_all_gather_stages(Rank nranks, Rank rank);
std::vector<Stage> all_pairs_all_gather_stages(Rank nranks, Rank rank);

// at_root: where the root has what it sends; what it keeps is left to the caller.
std::vector<Stage> tree_broadcast_stages(Rank nranks, Rank root, Rank rank, BufferId at_root);
std::vector<Stage> chain_broadcast_stages(Rank nranks, Rank root, Rank rank, BufferId at_root);

}  // namespace gimbal
