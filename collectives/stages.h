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

}  // namespace gimbal
