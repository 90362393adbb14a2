#include "collectives/order_hash.h"

#include <vector>

#include "collectives/left_complete_tree.h"

namespace gimbal {

uint64_t tree_order(Rank nranks) {
  const LeftCompleteTree tree(nranks);
  std::vector<uint64_t> values(tree.values());
  for (uint32_t value = 0; value < tree.values(); ++value) {
    const Rank first = tree.first_rank(value);
    values[value] =
        tree.is_paired(value) ? order_of_sum(order_of_input(first), order_of_input(first + 1)) : order_of_input(first);
  }
  for (; values.size() > 1; values.resize(values.size() / 2)) {
    for (size_t i = 0; i < values.size() / 2; ++i) values[i] = order_of_sum(values[2 * i], values[2 * i + 1]);
  }
  return values[0];
}

uint64_t rank_order(Rank nranks) {
  uint64_t sum = order_of_input(0);
  for (Rank rank = 1; rank < nranks; ++rank) sum = order_of_sum(sum, order_of_input(rank));
  return sum;
}

}  // namespace gimbal
