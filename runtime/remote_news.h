// What ranks of different nodes tell each other outside of operations: faults, farewells, and the operations that they wait in.
// Ranks of one node have its memory for that; see runtime/node_memory.h.
//
// Everything is told peer to peer by who knows it first; nobody passes on what it was told.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "collectives/node_shape.h"
#include "runtime/signature.h"
#include "transport/bootstrap.h"

namespace gimbal {

class RemoteNews {
 public:
  // The mesh must outlive it.
  RemoteNews(Bootstrap& mesh, const NodeShape& nodes, Rank rank);

  void tell_fault(const Status& fault, Rank origin);
  void tell_departure();
  // That this rank waits in an operation; each once.
  void announce(const Signature& signature);

  // Takes what has arrived; never waits. An error when a peer sends what no rank sends.
  Status update();

  struct Fault {
    Status status;
    Rank origin = -1;
  };
  // The first that was told.
  [[nodiscard]] std::optional<Fault> fault() const;
  [[nodiscard]] bool has_departed(Rank peer) const;
  // The operation that a rank announced last.
  [[nodiscard]] std::optional<Signature> announced(Rank peer) const;
  // The first rank that announced another operation under the same number.
  struct Difference {
    Rank peer = -1;
    Signature theirs;
  };
  [[nodiscard]] std::optional<Difference> find_difference(const Signature& mine) const;

 private:
  struct Peer {
    std::optional<Signature> announced;
    bool departed = false;
  };
  Status hear(Rank from, const std::vector<std::byte>& value);

  Bootstrap& mesh_;
  std::vector<Rank> others_;  // the ranks of other nodes

  mutable std::mutex mutex_;
  std::vector<Peer> peers_;     // by rank; guarded by mutex_
  std::optional<Fault> fault_;  // guarded by mutex_
  uint32_t told_sequence_ = 0;  // guarded by mutex_
};

}  // namespace gimbal
