#include "gradsync/levels.h"

#include <array>
#include <string>

#include "gradsync/calls.h"

namespace gimbal::gradsync {

Status OwnedCommunicator::split(gimbal_comm_t parent, int32_t color) {
  int32_t parent_rank = 0;
  RETURN_IF_ERROR(from_c(gimbal_comm_rank(parent, &parent_rank)));
  RETURN_IF_ERROR(from_c(gimbal_comm_split(parent, color, parent_rank, &comm_)));
  RETURN_IF_ERROR(from_c(gimbal_comm_rank(comm_, &rank_)));
  return from_c(gimbal_comm_size(comm_, &size_));
}

Status Levels::split(gimbal_comm_t comm) {
  RETURN_IF_ERROR(node.split(comm, GIMBAL_SPLIT_NODE));
  const std::array<int32_t, 2> own = {node.size(), -node.size()};
  std::array<int32_t, 2> most = {};
  RETURN_IF_ERROR(from_c(gimbal_all_reduce(own.data(), most.data(), most.size(), GIMBAL_INT32, GIMBAL_MAX, comm, nullptr)));
  if (most[0] != -most[1]) {
    return {Code::kUnsupported, "wire_between_nodes needs equally many ranks on each node, but there are nodes of " +
                                    std::to_string(-most[1]) + " and of " + std::to_string(most[0])};
  }
  return between_nodes.split(comm, node.rank());
}

}  // namespace gimbal::gradsync
