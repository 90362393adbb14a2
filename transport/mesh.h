// The control connections of one communicator: Bootstrap over Unix sockets within a node, and TCP between nodes.
//
// Owned by a communicator and used by one thread at a time, except news, check_peers() and gone(). The last two look only at
// descriptors, which do not change between construction and destruction, and at a list under a lock. Connections belong to
// whoever holds use_: a call keeps it until it has ended; news are queued under news_mutex_, and who holds use_ sends them.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
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
  static Result<std::unique_ptr<Mesh>> connect(const MeshPlan& plan, const ControlListener& listener, Deadline deadline);

  Result<std::unique_ptr<Bootstrap>> derive(std::span<const Rank> members, const std::string& name, uint64_t tag,
                                            Deadline deadline) override;
  [[nodiscard]] const std::vector<PeerIdentity>& peers() const override { return identities_; }
  [[nodiscard]] JobKey key() const override { return plan_.key(); }
  Result<std::vector<Bytes>> all_gather(std::span<const std::byte> value, Deadline deadline) override;
  Status send(Rank peer, std::span<const std::byte> value, Deadline deadline) override;
  Result<Bytes> receive(Rank peer, Deadline deadline) override;
  [[nodiscard]] bool passes_descriptors(Rank peer) const override;
  Status send_descriptor(Rank peer, int fd, Deadline deadline) override;
  Result<FileDescriptor> receive_descriptor(Rank peer, Deadline deadline) override;
  void post(std::span<const Rank> to, std::span<const std::byte> value) override;
  Result<std::vector<News>> take_news() override;
  [[nodiscard]] int arrival_descriptor() const override { return arrivals_.get(); }
  Status check_peers() override;
  [[nodiscard]] std::vector<Rank> gone() override;
  void watch(std::function<Status()> interrupted) override { plan_.interrupted = std::move(interrupted); }
  void tell_fault(const Status& fault) override;
  void tell_survivors(std::span<const std::byte> message) override;
  std::vector<Heard> hear_survivors(std::span<const Rank> awaited, Deadline deadline) override;

 private:
  struct Peer {
    ControlConnection connection;
    FileDescriptor process;  // pidfd; invalid where there is none
    bool shares_memory = false;
  };

  struct Post {
    std::vector<Rank> to;
    SharedBytes value;
  };
  // Holds use_; at the end what was posted meanwhile is sent.
  class Use {
   public:
    explicit Use(Mesh& mesh) : mesh_(mesh) { mesh_.use_.lock(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      mesh_.use_.unlock();
      mesh_.send_posts_if_free();
    }

   private:
    Mesh& mesh_;
  };

  // transport/mesh_make.cc
  Mesh(const MeshPlan& plan, std::vector<PeerSocket> sockets);
  Status watch_arrivals();
  Status agree_on_nodes(Deadline deadline);
  void say_how_peers_are_reached() const;

  Result<std::vector<Bytes>> exchange(std::span<const Rank> members, uint64_t tag, std::span<const std::byte> value,
                                      Deadline deadline);
  // Sends what is queued for these peers and reads from those that pending() names, until none is left.
  // What makes it fail is told to all peers.
  Status pump(std::span<const Rank> involved, const std::function<bool(Rank)>& pending, const char* what, Deadline deadline);
  Status pump_all(std::span<const Rank> involved, const std::function<bool(Rank)>& pending, const char* what,
                  Deadline deadline);
  Status ask_interrupted();
  bool wait_for_peers(std::span<const Rank> waiting, Deadline deadline);
  // While use_ is held: what has arrived from any peer, and what was posted to any.
  Status read_arrivals();
  void send_posts();
  void send_posts_if_free();
  void tell_all(FrameKind kind, std::span<const std::byte> payload);
  void tell_fault_now(const Status& fault);
  void take_heard(std::span<const Rank> awaited, std::vector<Heard>& news);
  Status check_peer_argument(Rank peer) const;
  Status check_passes_descriptors(Rank peer) const;
  [[nodiscard]] Peer& at(Rank rank) { return peers_[static_cast<size_t>(rank)]; }
  bool has_ended(Rank rank);
  Rank choose_culprit(Rank closed, std::span<const Rank> involved);
  Status report_gone(Rank rank);

  MeshPlan plan_;
  std::vector<PeerIdentity> identities_;
  std::vector<Peer> peers_;  // by rank; this rank's own is empty
  uint64_t gathers_ = 0;
  FileDescriptor arrivals_;  // an epoll instance over the open connections
  FileDescriptor posted_;    // an eventfd: a post waits for who holds use_
  std::mutex use_;
  std::mutex news_mutex_;
  std::deque<News> news_;         // guarded by news_mutex_
  std::vector<Post> posts_;       // guarded by news_mutex_
  bool fault_told_ = false;       // guarded by use_
  bool among_survivors_ = false;  // guarded by use_
  std::mutex gone_mutex_;
  std::vector<Rank> gone_;  // guarded by gone_mutex_
  std::set<Rank> silent_;   // guarded by gone_mutex_: their hosts stopped answering
};

}  // namespace gimbal
