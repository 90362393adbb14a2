// How ranks find each other: counting at the store, then a mesh of control connections, one per pair of ranks.
//
// The mesh carries small metadata, passes descriptors between ranks of a node, and tells of a peer's death: its end of the
// connection closes. After connect() nothing depends on rank 0 or on the store.
//
// Within a node the connections are abstract Unix sockets (they stay inside a network namespace), and a peer's process is
// watched by its pidfd too, where there is one: a forked child that inherits the sockets must not hide its parent's death.
// Between nodes they are TCP, whose kernel probes find out when a peer's host is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/status.h"
#include "base/types.h"
#include "transport/job_key.h"
#include "transport/socket.h"
#include "transport/store.h"

namespace gimbal {

struct PeerIdentity {
  Rank rank = 0;
  int64_t pid = 0;
  std::string host;
  std::string control_address;  // "unix:<abstract name>", or "10.9.0.2" where the connection is TCP
  // Ranks of one node can pass each other descriptors, and so share memory: every pair of them has tried. Nodes count from 0 in
  // the order of their lowest ranks, alike on all ranks.
  Rank node = 0;
  // Where this rank reaches the peer over TCP, without a port; nothing where no interface is up. Of a peer of this node:
  // loopback, or this host's own address when the admitted interfaces do not have it.
  std::optional<SocketAddress> address = {};
  std::string interface = {};  // of this host, towards that address: "eth0"
};

struct BootstrapOptions {
  Rank rank = 0;
  Rank size = 1;
  std::string job_key;   // keyed hello on every control connection
  std::string name;      // of the communicator: prefixes the store's keys, and stands in messages
  uint32_t version = 0;  // major << 16 | minor << 8 | patch; ranks of different versions refuse each other by both numbers
  std::string interfaces = {};       // GIMBAL_SOCKET_IFNAME (transport/interfaces.h); empty: all
  int64_t link_timeout_ms = 15'000;  // a host that answers nothing for this long is gone
};

class Bootstrap {
 public:
  // Collective. Errors name what is wrong: "rank 1 joined twice (pid 71 and pid 75 on host a)", "missing ranks: 2, 5 (4 of 6
  // joined within 10 s)", "world size 2 on rank 0, 3 on rank 1", "version 0.1.0 on rank 0, 0.2.0 on rank 1". When one rank
  // finds such a fault, the others are told through the store and fail with the same sentence rather than at their deadline.
  static Result<std::unique_ptr<Bootstrap>> connect(Store& store, const BootstrapOptions& options, const Log& log,
                                                    Deadline deadline);
  virtual ~Bootstrap() = default;
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  // A mesh among some of this mesh's ranks (communicator split, shrink): members[i] is the old rank of new rank i, equal on all
  // members; `tag` is equal on the members and differs between meshes made from one parent.
  virtual Result<std::unique_ptr<Bootstrap>> derive(std::span<const Rank> members, const std::string& name, uint64_t tag,
                                                    Deadline deadline) = 0;

  [[nodiscard]] virtual const std::vector<PeerIdentity>& peers() const = 0;  // by rank, this one included

  // Of this mesh alone, for further connections among its ranks (transport/hello.h).
  [[nodiscard]] virtual JobKey key() const = 0;

  // Collective over the mesh: every rank's value, by rank. Values are at most 1 MiB and may differ in size.
  virtual Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> value, Deadline deadline) = 0;

  // One message to or from one peer, in order. Length fields from peers are bounded before memory is taken.
  virtual Status send(Rank peer, std::span<const std::byte> value, Deadline deadline) = 0;
  virtual Result<std::vector<std::byte>> receive(Rank peer, Deadline deadline) = 0;

  // Whether this rank and the peer can pass descriptors, and so share memory: their connection stays inside one kernel.
  [[nodiscard]] virtual bool passes_descriptors(Rank peer) const = 0;
  // One descriptor to or from such a peer (SCM_RIGHTS).
  virtual Status send_descriptor(Rank peer, int fd, Deadline deadline) = 0;
  virtual Result<FileDescriptor> receive_descriptor(Rank peer, Deadline deadline) = 0;

  // News need no call on the other side: faults, announcements, farewells. Both functions may be called from any thread, while
  // another is in a call above too, and never wait. What the sockets do not take now goes out with the next call on this mesh.
  virtual void post(std::span<const Rank> to, std::span<const std::byte> value) = 0;
  struct News {
    Rank from = 0;
    std::vector<std::byte> value;
  };
  // What has arrived, in order per peer. An error when a peer sends what no rank sends.
  virtual Result<std::vector<News>> take_news() = 0;
  // Readable (to poll and epoll) when something has arrived, or a peer's end has closed, since the last take_news().
  [[nodiscard]] virtual int arrival_descriptor() const = 0;

  // Without waiting: OK, or REMOTE naming the first rank whose process or connection is gone ("rank 2 (pid 77 on host a) is
  // gone: its process ended"). Safe to call from any thread while another is in all_gather or send.
  virtual Status check_peers() = 0;
  // The ranks found gone so far.
  [[nodiscard]] virtual std::vector<Rank> gone() = 0;

  // Every blocking call of this mesh, and of those derived from it later, asks `interrupted` at least every 50 ms and returns
  // its error. It is called by the thread that is in the call.
  virtual void watch(std::function<Status()> interrupted) = 0;
  // Tells every peer why this rank gives the mesh up, so that they report the cause and not this rank's going. The first time
  // only; never waits.
  virtual void tell_fault(const Status& fault) = 0;

  // What ranks tell each other about a failure that has happened (gimbal_comm_shrink). From the first call on, faults that were
  // told are no longer looked at.
  virtual void tell_survivors(std::span<const std::byte> message) = 0;  // every peer that is still connected; never waits
  struct Heard {
    Rank from = 0;
    std::optional<std::vector<std::byte>> message;  // nothing: it is gone
    bool silent = false;                            // not known to have ended: its host does not answer
  };
  // What has arrived from anybody, in each sender's order, and who of `awaited` is gone; waits for the first such news. Empty
  // at the deadline.
  virtual std::vector<Heard> hear_survivors(std::span<const Rank> awaited, Deadline deadline) = 0;

 protected:
  Bootstrap() = default;
};

}  // namespace gimbal
