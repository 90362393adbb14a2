// The two levels of a communicator whose nodes have equally many ranks: the ranks of this node, and those of the other nodes
// that stand at the same place in theirs.
#pragma once

#include "base/status.h"
#include "gimbal/gimbal.h"

namespace gimbal::gradsync {

class OwnedCommunicator {
 public:
  OwnedCommunicator() = default;
  ~OwnedCommunicator() { gimbal_comm_destroy(comm_); }
  OwnedCommunicator(const OwnedCommunicator&) = delete;
  OwnedCommunicator& operator=(const OwnedCommunicator&) = delete;

  // Collective; this one is empty.
  Status split(gimbal_comm_t parent, int32_t color);
  [[nodiscard]] gimbal_comm_t get() const { return comm_; }
  [[nodiscard]] int32_t rank() const { return rank_; }
  [[nodiscard]] int32_t size() const { return size_; }

 private:
  gimbal_comm_t comm_ = nullptr;
  int32_t rank_ = 0;
  int32_t size_ = 1;
};

struct Levels {
  OwnedCommunicator node;
  OwnedCommunicator between_nodes;

  // Collective; these are empty. UNSUPPORTED on all ranks where nodes have different numbers of ranks.
  Status split(gimbal_comm_t comm);
};

}  // namespace gimbal::gradsync
