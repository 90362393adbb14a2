#include "transport/mesh_connect.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>

#include "transport/control_connection.h"
#include "transport/peer_dial.h"
#include "transport/socket.h"

namespace gimbal {
namespace {

// On a busy machine a killed process was seen to close its sockets 0.2 s before it had ended.
constexpr int64_t kLeavesWithinMs = 400;

std::string inode_of(const char* path) {
  struct stat status = {};
  return stat(path, &status) == 0 ? std::to_string(status.st_ino) : "?";
}

// True of a process that nobody has waited for yet, too: it is dead, though its number still exists.
bool has_ended(pid_t pid) {
  const FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid()) return errno == ESRCH;
  pollfd entry = {.fd = process.get(), .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) > 0;
}

bool is_unix_socket(int socket) {
  int domain = 0;
  socklen_t length = sizeof(domain);
  return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

// Joins one rank to its mesh: connects to lower ranks, accepts higher ones, and never waits for one of them alone.
class MeshConnector {
 public:
  MeshConnector(const MeshPlan& plan, KeyedListener& listener)
      : plan_(plan),
        listener_(listener),
        key_(plan.key()),
        sockets_(plan.roster.records.size()),
        missing_(plan.size() - 1),
        absent_(plan.roster.records.size()) {
    for (Rank rank = 0; rank < plan.rank; ++rank) {
      dials_.emplace_back(addresses_of(rank), key_, Claim{.purpose = Purpose::kControl, .from = plan.rank, .to = rank});
    }
  }

  Result<std::vector<PeerSocket>> run(Deadline deadline) {
    const Status status = connect_all(deadline);
    if (status.ok()) return std::move(sockets_);
    tell(status);
    return status;
  }

 private:
  std::vector<SocketAddress> addresses_of(Rank rank) const {
    const JoinRecord& peer = plan_.record(rank);
    std::vector<SocketAddress> addresses = {abstract_address(peer.control_address)};
    if (peer.node == plan_.record(plan_.rank).node) return addresses;
    for (SocketAddress& address : addresses_to_try(plan_.interfaces, peer.candidates, peer.port)) {
      addresses.push_back(std::move(address));
    }
    return addresses;
  }

  Status connect_all(Deadline deadline) {
    while (missing_ > 0) {
      RETURN_IF_ERROR(plan_.interrupted());
      RETURN_IF_ERROR(step_dials());
      accept_ranks();
      if (missing_ == 0) break;
      if (deadline.passed()) return timeout();
      RETURN_IF_ERROR(wait(deadline));
    }
    return {};
  }

  void tell(const Status& fault) {
    leaving_ = true;
    const Deadline deadline = Deadline::after_ms(kLeavesWithinMs);
    // What fails now is one more rank that need not be told.
    while (missing_ > 0 && !deadline.passed()) {
      if (!step_dials().ok()) break;
      accept_ranks();
      if (missing_ == 0 || !wait(deadline).ok()) break;
    }
    const auto payload = std::make_shared<const Bytes>(encode_fault(fault));
    for (PeerSocket& peer : sockets_) {
      if (!peer.socket.valid()) continue;
      ControlConnection connection(std::move(peer.socket), "");
      connection.queue(FrameKind::kFault, 0, payload);
      static_cast<void>(connection.flush());  // whom it does not reach is gone
    }
  }

  Status step_dials() {
    for (PeerDial& dial : dials_) {
      const Rank rank = dial.claim().to;
      switch (dial.step()) {
        case HelloClient::Step::kAgain:
          break;
        case HelloClient::Step::kDone:
          join(rank, dial.take());
          break;
        case HelloClient::Step::kFailed:
          RETURN_IF_ERROR(unreachable(rank, dial));
      }
    }
    std::erase_if(dials_,
                  [this](const PeerDial& dial) { return socket_of(dial.claim().to).valid() || is_absent(dial.claim().to); });
    return {};
  }

  void accept_ranks() {
    const auto expects = [this](const Claim& claim) {
      return claim.purpose == Purpose::kControl && claim.to == plan_.rank && claim.from > plan_.rank &&
             claim.from < plan_.size() && !socket_of(claim.from).valid();
    };
    for (AcceptedConnection& accepted : listener_.progress(key_, expects)) {
      join(accepted.claim.from, std::move(accepted.socket));
    }
  }

  Status wait(Deadline deadline) {
    std::vector<pollfd> polled = {{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const PeerSocket& peer : sockets_) polled.push_back({.fd = peer.socket.get(), .events = POLLRDHUP, .revents = 0});
    const size_t joined = polled.size();
    int64_t next_ns = std::min(deadline.at_ns(), monotonic_ns() + int64_t{kLookAgainMs} * 1'000'000);
    for (const PeerDial& dial : dials_) {
      dial.add_polled(polled);
      next_ns = std::min(next_ns, dial.next_start_ns());
    }
    const int64_t left_ns = std::max<int64_t>(0, next_ns - monotonic_ns());
    const timespec timeout = {.tv_sec = left_ns / 1'000'000'000, .tv_nsec = left_ns % 1'000'000'000};
    if (ppoll(polled.data(), polled.size(), &timeout, nullptr) == 0) return look_for_dead();
    for (size_t i = 1; i < joined; ++i) {
      if (polled[i].revents != 0) RETURN_IF_ERROR(lost(static_cast<Rank>(i - 1)));
    }
    return {};
  }

  FileDescriptor& socket_of(Rank rank) { return sockets_[static_cast<size_t>(rank)].socket; }

  void join(Rank rank, FileDescriptor socket) {
    if (!socket.valid() || socket_of(rank).valid()) return;
    PeerSocket& peer = sockets_[static_cast<size_t>(rank)];
    peer.shares_memory = is_unix_socket(socket.get());
    if (!peer.shares_memory) set_link_timeout(socket.get(), plan_.link_timeout_ms);
    peer.socket = std::move(socket);
    --missing_;
  }

  // Ranks that have not connected yet leave no sign on a socket when they die; their process ids do, where they are common.
  std::optional<Rank> find_dead() const {
    for (const JoinRecord& record : plan_.roster.records) {
      if (is_absent(record.rank)) continue;
      if (record.node == plan_.record(plan_.rank).node && has_ended(static_cast<pid_t>(record.pid))) return record.rank;
    }
    return std::nullopt;
  }

  Status look_for_dead() {
    const std::optional<Rank> dead = find_dead();
    return dead ? lost(*dead) : Status();
  }

  // The end of connecting, unless this rank is leaving anyway: the cause is what the rank said, else a process that has ended,
  // else the close itself.
  Status lost(Rank closed) {
    if (leaving_) {
      if (!is_absent(closed) && !socket_of(closed).valid()) --missing_;
      absent_[static_cast<size_t>(closed)] = true;
      socket_of(closed).reset();
      return {};
    }
    if (socket_of(closed).valid()) {
      ControlConnection connection(std::move(socket_of(closed)), describe(plan_.record(closed)));
      if (connection.fill().ok() && !connection.fault().ok()) return connection.fault();
    }
    const std::optional<Rank> dead = find_dead();
    return {Code::kRemote, describe(plan_.record(dead.value_or(closed))) +
                               " is gone: " + (dead ? "its process ended" : "it closed its control connection") + " while \"" +
                               plan_.name + "\" was being connected"};
  }

  Status unreachable(Rank rank, const PeerDial& dial) {
    if (leaving_ || plan_.record(rank).node == plan_.record(plan_.rank).node) return lost(rank);
    return {Code::kRemote, describe(plan_.record(rank)) + " cannot be reached from " + describe(plan_.record(plan_.rank)) +
                               ": " + dial.failures()};
  }

  Status timeout() {
    std::string ranks;
    std::string tried;
    for (Rank rank = 0; rank < plan_.size(); ++rank) {
      if (rank != plan_.rank && !socket_of(rank).valid()) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    for (const PeerDial& dial : dials_) tried += (tried.empty() ? " (" : "; ") + dial.failures();
    return {Code::kTimeout, "rank " + std::to_string(plan_.rank) + " of \"" + plan_.name +
                                "\" has no control connection to these ranks at the deadline: " + ranks +
                                (tried.empty() ? "" : tried + ")")};
  }

  [[nodiscard]] bool is_absent(Rank rank) const { return absent_[static_cast<size_t>(rank)]; }

  const MeshPlan& plan_;
  KeyedListener& listener_;
  const JobKey key_;
  std::vector<PeerSocket> sockets_;
  Rank missing_;
  bool leaving_ = false;      // it has failed, and tells the others why
  std::vector<bool> absent_;  // lost since it is leaving
  std::vector<PeerDial> dials_;
};

}  // namespace

std::string describe(const JoinRecord& record) {
  return "rank " + std::to_string(record.rank) + " (pid " + std::to_string(record.pid) + " on host " + record.host + ")";
}

JoinRecord describe_self() {
  JoinRecord record;
  record.pid = getpid();
  std::array<char, kMaxHostBytes + 1> host = {};
  gethostname(host.data(), host.size() - 1);
  record.host = host.data();
  std::string boot;
  std::ifstream boot_id("/proc/sys/kernel/random/boot_id");
  std::getline(boot_id, boot);
  record.node = boot.substr(0, 36) + "/" + inode_of("/proc/self/ns/net") + "/" + inode_of("/proc/self/ns/pid");
  return record;
}

Result<ControlListener> open_control_listener(bool for_other_hosts) {
  ControlListener control;
  control.name = "gimbal-control-" + to_hex(random_nonce());
  std::vector<FileDescriptor> sockets(1);
  ASSIGN_OR_RETURN(sockets[0], listen_on(abstract_address(control.name)));
  if (for_other_hosts) {
    ASSIGN_OR_RETURN(PortListener listener, listen_on_any_port());
    control.port = listener.port;
    sockets.push_back(std::move(listener.fd));
  }
  ASSIGN_OR_RETURN(control.listener, KeyedListener::create(std::move(sockets)));
  return control;
}

Result<std::vector<PeerSocket>> connect_mesh(const MeshPlan& plan, KeyedListener& listener, Deadline deadline) {
  return MeshConnector(plan, listener).run(deadline);
}

}  // namespace gimbal
