// The control connections of one communicator: Bootstrap over Unix sockets.
//
// Owned by a communicator and used by one thread at a time, except check_peers() and gone(): they look only at descriptors,
// which do not change between construction and destruction, and at a list under a lock.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transport/bootstrap.h"
#include "transport/control_connection.h"
#include "transport/mesh_connect.h"
#include "transport/wire.h"

namespace gimbal {

class Mesh : public Bootstrap {
 public:
  // Collective among the roster's ranks, which all listen by now: connects them and meets them in a barrier.
  static Result<std::unique_ptr<Mesh>> connect(const MeshPlan& plan, FileDescriptor listener, Deadline deadline);

  Result<std::unique_ptr<Bootstrap>> derive(std::span<const Rank> members, const std::string& name, uint64_t tag,
                                            Deadline deadline) override;
  [[nodiscard]] const std::vector<PeerIdentity>& peers() const override { return identities_; }
  Result<std::vector<Bytes>> all_gather(std::span<const std::byte> value, Deadline deadline) override;
  Status send(Rank peer, std::span<const std::byte> value, Deadline deadline) override;
  Result<Bytes> receive(Rank peer, Deadline deadline) override;
  Status send_descriptor(Rank peer, int fd, Deadline deadline) override;
  Result<FileDescriptor> receive_descriptor(Rank peer, Deadline deadline) override;
  Status check_peers() override;
  [[nodiscard]] std::vector<Rank> gone() override;

 private:
  struct Peer {
    ControlConnection connection;
    FileDescriptor process;  // pidfd; invalid where there is none
  };

  Mesh(const MeshPlan& plan, std::vector<FileDescriptor> sockets);
  Result<std::vector<Bytes>> exchange(std::span<const Rank> members, uint64_t tag, std::span<const std::byte> value,
                                      Deadline deadline);
  // Sends what is queued for these peers and reads from those that pending() names, until none is left.
  Status pump(std::span<const Rank> involved, const std::function<bool(Rank)>& pending, const char* what, Deadline deadline);
  bool wait_for_peers(std::span<const Rank> waiting, const std::function<bool(Rank)>& pending, Deadline deadline);
  Status check_peer_argument(Rank peer) const;
  [[nodiscard]] Peer& at(Rank rank) { return peers_[static_cast<size_t>(rank)]; }
  bool has_ended(Rank rank);
  Rank choose_culprit(Rank closed, std::span<const Rank> involved);
  Status report_gone(Rank rank);

  const MeshPlan plan_;
  std::vector<PeerIdentity> identities_;
  std::vector<Peer> peers_;  // by rank; this rank's own is empty
  uint64_t gathers_ = 0;
  std::mutex gone_mutex_;
  std::vector<Rank> gone_;
};

}  // namespace gimbal
