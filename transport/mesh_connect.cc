#include "transport/mesh_connect.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

#include "transport/socket.h"

namespace gimbal {
namespace {

constexpr int kLookForDeadMs = 100;

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

// Joins one rank to its mesh: connects to lower ranks, accepts higher ones, and never waits for one of them alone.
class MeshConnector {
 public:
  MeshConnector(const MeshPlan& plan, int listener)
      : plan_(plan),
        listener_(listener),
        key_(plan.job_key.derive(ByteWriter().raw(plan.roster.nonce).text(plan.name).take())),
        sockets_(plan.roster.records.size()),
        missing_(plan.size() - 1) {
    for (Rank rank = 0; rank < plan.rank; ++rank) outgoing_.push_back({.to = rank, .socket = {}, .inbox = {}});
  }

  Result<std::vector<FileDescriptor>> run(Deadline deadline) {
    const Status status = connect_all(deadline);
    if (status.ok()) return std::move(sockets_);
    if (status.code() == Code::kRemote) let_others_see_the_cause();
    return status;
  }

 private:
  Status connect_all(Deadline deadline) {
    while (missing_ > 0) {
      RETURN_IF_ERROR(start_connections());
      RETURN_IF_ERROR(wait_and_step(deadline));
      if (missing_ > 0 && deadline.passed()) return timeout();
    }
    return {};
  }

  // A connection that this rank began; without a socket while the peer's queue of connections is full.
  struct Outgoing {
    Rank to;
    FileDescriptor socket;
    Bytes inbox;
  };
  struct Incoming {
    FileDescriptor socket;
    Bytes inbox;
  };
  // More strangers than this at one time lose their turn, the oldest first.
  static constexpr size_t kMaxStrangers = 1024;

  const JoinRecord& record(Rank rank) const { return plan_.roster.records[static_cast<size_t>(rank)]; }
  FileDescriptor& socket_of(Rank rank) { return sockets_[static_cast<size_t>(rank)]; }

  Bytes hello(bool accepts, Rank to) const {
    const std::string& acceptor = record(accepts ? plan_.rank : to).control_address;
    return encode(
        MeshHello{.from = plan_.rank, .to = to, .proof = key_.prove(mesh_proof_context(accepts, plan_.rank, to, acceptor))});
  }
  bool is_genuine(const MeshHello& hello, bool accepts) const {
    const std::string& acceptor = record(accepts ? hello.from : hello.to).control_address;
    return key_.verify(mesh_proof_context(accepts, hello.from, hello.to, acceptor), hello.proof);
  }

  Status start_connections() {
    for (Outgoing& out : outgoing_) {
      if (out.socket.valid()) continue;
      ConnectAttempt attempt = connect_to(abstract_address(record(out.to).control_address), Deadline::after_ms(0));
      if (!attempt.fd.valid()) {
        if (attempt.error_number == EAGAIN) continue;
        return unreachable(out.to, attempt.error_number);
      }
      // A fresh socket takes a hello whole.
      const Bytes bytes = hello(false, out.to);
      if (write_some(attempt.fd.get(), bytes).bytes != bytes.size()) return lost(out.to);
      out.socket = std::move(attempt.fd);
    }
    return {};
  }

  Status wait_and_step(Deadline deadline) {
    std::vector<pollfd> polled = {{.fd = listener_, .events = POLLIN, .revents = 0}};
    bool retry = false;
    for (const Outgoing& out : outgoing_) {
      polled.push_back({.fd = out.socket.get(), .events = POLLIN, .revents = 0});  // poll skips negative descriptors
      retry = retry || !out.socket.valid();
    }
    const size_t first_incoming = polled.size();
    for (const Incoming& in : incoming_) polled.push_back({.fd = in.socket.get(), .events = POLLIN, .revents = 0});
    const size_t first_joined = polled.size();
    for (const FileDescriptor& socket : sockets_) polled.push_back({.fd = socket.get(), .events = POLLRDHUP, .revents = 0});

    constexpr int kRetryMs = 1;
    const int count = poll(polled.data(), polled.size(), std::min(retry ? kRetryMs : kLookForDeadMs, deadline.remaining_ms()));
    if (count == 0 && !retry) return look_for_dead();
    if (count <= 0) return {};
    for (size_t i = first_joined; i < polled.size(); ++i) {
      if (polled[i].revents != 0) return lost(static_cast<Rank>(i - first_joined));
    }
    for (size_t i = first_incoming; i < first_joined; ++i) {
      if (polled[i].revents != 0) step_incoming(incoming_[i - first_incoming]);
    }
    std::erase_if(incoming_, [](const Incoming& in) { return !in.socket.valid(); });
    for (size_t i = 1; i < first_incoming; ++i) {
      if (polled[i].revents != 0) RETURN_IF_ERROR(step_outgoing(outgoing_[i - 1]));
    }
    std::erase_if(outgoing_, [this](const Outgoing& out) { return socket_of(out.to).valid(); });
    return polled[0].revents != 0 ? accept_all() : Status();
  }

  Status accept_all() {
    for (;;) {
      ConnectAttempt attempt = accept_from(listener_);
      if (attempt.error_number == EAGAIN) return {};
      if (!attempt.fd.valid()) return system_error("accepting control connections", attempt.error_number);
      if (incoming_.size() == kMaxStrangers) incoming_.erase(incoming_.begin());
      incoming_.push_back({.socket = std::move(attempt.fd), .inbox = {}});
      step_incoming(incoming_.back());
      if (!incoming_.back().socket.valid()) incoming_.pop_back();
    }
  }

  // Reads towards a hello; closes the socket of a stranger.
  static std::optional<MeshHello> read_hello(FileDescriptor& socket, Bytes& inbox) {
    std::array<std::byte, kMeshHelloBytes> buffer;
    const Transfer transfer = read_some(socket.get(), std::span(buffer).first(kMeshHelloBytes - inbox.size()));
    inbox.insert(inbox.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(transfer.bytes));
    if (inbox.size() == kMeshHelloBytes) {
      const std::optional<MeshHello> parsed = parse_mesh_hello(inbox);
      if (parsed) return parsed;
      socket.reset();
    }
    if (transfer.closed || transfer.error_number != 0) socket.reset();
    return std::nullopt;
  }

  void step_incoming(Incoming& in) {
    const std::optional<MeshHello> theirs = read_hello(in.socket, in.inbox);
    if (!theirs) return;
    FileDescriptor socket = std::move(in.socket);
    const bool expected = theirs->to == plan_.rank && theirs->from > plan_.rank && theirs->from < plan_.size() &&
                          !socket_of(theirs->from).valid();
    if (!expected || !is_genuine(*theirs, false)) return;
    const Bytes bytes = hello(true, theirs->from);
    if (write_some(socket.get(), bytes).bytes != bytes.size()) return;
    join(theirs->from, std::move(socket));
  }

  Status step_outgoing(Outgoing& out) {
    const std::optional<MeshHello> theirs = read_hello(out.socket, out.inbox);
    if (!out.socket.valid()) return lost(out.to);
    if (!theirs) return {};
    if (theirs->from != out.to || theirs->to != plan_.rank || !is_genuine(*theirs, true)) return lost(out.to);
    join(out.to, std::move(out.socket));
    return {};
  }

  void join(Rank rank, FileDescriptor socket) {
    socket_of(rank) = std::move(socket);
    --missing_;
  }

  // Ranks that have not connected yet leave no sign on a socket when they die; their process ids do, where they are common.
  std::optional<Rank> find_dead() const {
    for (Rank rank = 0; rank < plan_.size(); ++rank) {
      if (record(rank).node == record(plan_.rank).node && has_ended(static_cast<pid_t>(record(rank).pid))) return rank;
    }
    return std::nullopt;
  }

  Status look_for_dead() const {
    const std::optional<Rank> dead = find_dead();
    return dead ? lost(*dead) : Status();
  }

  // A rank that fails closes its connections, so a death is followed by closes: the one whose process ended is the cause.
  Status lost(Rank closed) const {
    const std::optional<Rank> dead = find_dead();
    return {Code::kRemote, describe(record(dead.value_or(closed))) +
                               " is gone: " + (dead ? "its process ended" : "it closed its control connection") + " while \"" +
                               plan_.name + "\" was being connected"};
  }

  Status unreachable(Rank rank, int error_number) const {
    if (error_number != ECONNREFUSED) return system_error("connecting to " + describe(record(rank)), error_number);
    if (record(rank).node == record(plan_.rank).node) return lost(rank);
    return {Code::kUnsupported,
            describe(record(rank)) + " cannot be reached from " + describe(record(plan_.rank)) +
                ": they do not share a network namespace, and this version serves the ranks of one host only"};
  }

  Status timeout() {
    std::string ranks;
    for (Rank rank = 0; rank < plan_.size(); ++rank) {
      if (rank == plan_.rank || socket_of(rank).valid()) continue;
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    return {Code::kTimeout, "rank " + std::to_string(plan_.rank) + " of \"" + plan_.name +
                                "\" has no control connection to these ranks at the deadline: " + ranks};
  }

  const MeshPlan& plan_;
  const int listener_;
  const JobKey key_;  // of this mesh: a hello cannot be replayed on another
  std::vector<FileDescriptor> sockets_;
  Rank missing_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
};

}  // namespace

// Four looks: on a busy machine a killed process was seen to close its sockets more than two looks before it had ended, and the
// rank that noticed first was then blamed by the others.
void let_others_see_the_cause() { poll(nullptr, 0, 4 * kLookForDeadMs); }

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

Result<ControlListener> open_control_listener() {
  std::string address = "gimbal-control-" + to_hex(random_nonce());
  ASSIGN_OR_RETURN(FileDescriptor socket, listen_on(abstract_address(address)));
  return ControlListener{.socket = std::move(socket), .address = std::move(address)};
}

Result<std::vector<FileDescriptor>> connect_mesh(const MeshPlan& plan, int listener, Deadline deadline) {
  return MeshConnector(plan, listener).run(deadline);
}

}  // namespace gimbal
