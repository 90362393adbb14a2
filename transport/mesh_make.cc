// How a mesh comes to be: from connected sockets to a Bootstrap that knows its nodes, and from a mesh to one of some of its
// ranks.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "transport/descriptor_limit.h"
#include "transport/mesh.h"

namespace gimbal {
namespace {

// Tags of all_gather count up from 0; those of derive() are the caller's, with this bit.
constexpr uint64_t kDeriveTag = uint64_t{1} << 63;

// The process at the other end, unless it is this one or stands in no process-id namespace that is visible here.
FileDescriptor watch_process(int socket) {
  ucred credentials = {};
  socklen_t length = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
  if (credentials.pid <= 0 || credentials.pid == getpid()) return {};
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, credentials.pid, 0)));
}

// Where peers of this node are reached when they are to be reached over TCP.
std::optional<InterfaceAddress> choose_own_address(const std::vector<InterfaceAddress>& interfaces) {
  const auto usable = [](const InterfaceAddress& one) { return !is_link_local(one.ip); };
  auto found = std::ranges::find_if(interfaces, &InterfaceAddress::loopback);
  if (found == interfaces.end()) found = std::ranges::find_if(interfaces, usable);
  return found == interfaces.end() ? std::nullopt : std::optional(*found);
}

// The lowest rank of every rank's node. Two ranks are on one node when both say so; ranks whose views differ, which no kernel
// has shown yet, are nodes of their own.
std::vector<size_t> node_leaders(const std::vector<Bytes>& views) {
  const size_t size = views.size();
  const auto together = [&](size_t a, size_t b) { return views[a][b] == std::byte{1} && views[b][a] == std::byte{1}; };
  std::vector<size_t> leaders(size);
  for (size_t rank = 0; rank < size; ++rank) {
    size_t leader = 0;
    while (leader != rank && !together(rank, leader)) ++leader;
    for (size_t other = 0; other < size; ++other) {
      if (together(rank, other) != together(leader, other)) leader = rank;
    }
    leaders[rank] = leader;
  }
  return leaders;
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::connect(const MeshPlan& plan, const ControlListener& listener, Deadline deadline) {
  ASSIGN_OR_RETURN(std::vector<PeerSocket> sockets, connect_mesh(plan, *listener.listener, deadline));
  std::unique_ptr<Mesh> mesh(new Mesh(plan, std::move(sockets)));
  RETURN_IF_ERROR(mesh->watch_arrivals());
  RETURN_IF_ERROR(mesh->agree_on_nodes(deadline));
  mesh->say_how_peers_are_reached();
  return mesh;
}

Mesh::Mesh(const MeshPlan& plan, std::vector<PeerSocket> sockets) : plan_(plan), peers_(sockets.size()) {
  const std::optional<InterfaceAddress> own = choose_own_address(plan.interfaces);
  for (size_t i = 0; i < sockets.size(); ++i) {
    const JoinRecord& record = plan_.roster.records[i];
    PeerIdentity identity;
    identity.rank = record.rank;
    identity.pid = record.pid;
    identity.host = record.host;
    if (const auto remote = peer_address(sockets[i].socket.get())) {
      identity.control_address = remote->text;
      identity.address = *remote;
      identity.interface = interface_of(sockets[i].socket.get(), plan.interfaces);
    } else {
      identity.control_address = "unix:" + record.control_address;
      if (own) {
        identity.address = make_tcp_address(own->ip, 0, 0);
        identity.interface = own->interface;
      }
    }
    identities_.push_back(std::move(identity));
    if (!sockets[i].socket.valid()) continue;
    peers_[i].shares_memory = sockets[i].shares_memory;
    peers_[i].process = watch_process(sockets[i].socket.get());
    peers_[i].connection = ControlConnection(std::move(sockets[i].socket), describe(record));
  }
}

Status Mesh::watch_arrivals() {
  arrivals_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  posted_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!arrivals_.valid() || !posted_.valid()) return system_error("watching the control connections", errno);
  for (Rank rank = 0; rank < plan_.size(); ++rank) {
    if (rank == plan_.rank) continue;
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<uint32_t>(rank);
    if (epoll_ctl(arrivals_.get(), EPOLL_CTL_ADD, at(rank).connection.fd(), &event) != 0) {
      return system_error("watching the control connections", errno);
    }
  }
  return {};
}

// It is the barrier that ends connecting, too.
Status Mesh::agree_on_nodes(Deadline deadline) {
  Bytes mine;
  for (Rank rank = 0; rank < plan_.size(); ++rank) {
    mine.push_back(static_cast<std::byte>(passes_descriptors(rank) ? 1 : 0));
  }
  ASSIGN_OR_RETURN(const std::vector<Bytes> views, all_gather(mine, deadline));
  for (Rank rank = 0; rank < plan_.size(); ++rank) {
    if (views[static_cast<size_t>(rank)].size() == mine.size()) continue;
    return {Code::kInternal, describe(plan_.record(rank)) + " sent a malformed view of its node"};
  }
  const std::vector<size_t> leaders = node_leaders(views);
  std::vector<Rank> node_of_leader(leaders.size());
  Rank nodes = 0;
  for (size_t rank = 0; rank < leaders.size(); ++rank) {
    if (leaders[rank] == rank) node_of_leader[rank] = nodes++;
    identities_[rank].node = node_of_leader[leaders[rank]];
  }
  return {};
}

void Mesh::say_how_peers_are_reached() const {
  if (!plan_.log.enabled(LogLevel::kInfo)) return;
  for (const PeerIdentity& peer : identities_) {
    if (passes_descriptors(peer.rank)) continue;
    std::string offered;
    for (const TcpCandidate& candidate : plan_.record(peer.rank).candidates) {
      const SocketAddress address = make_tcp_address(candidate.ip, plan_.record(peer.rank).port, 0);
      offered += (offered.empty() ? "" : ", ") + address.text + " (" + candidate.interface + ")";
    }
    plan_.log.info(describe(plan_.record(peer.rank)) + " is reached at " + peer.control_address + " through interface " +
                   peer.interface + ", the first that answered; it offers " + offered);
  }
}

Result<std::unique_ptr<Bootstrap>> Mesh::derive(std::span<const Rank> members, const std::string& name, uint64_t tag,
                                                Deadline deadline) {
  const auto mine = std::find(members.begin(), members.end(), plan_.rank);
  if (mine == members.end()) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(plan_.rank) + " is not a member of \"" + name + "\"");
  }
  RETURN_IF_ERROR(reserve_descriptors(2 * members.size() + 6));
  const bool across = std::ranges::any_of(members, [this](Rank rank) { return !passes_descriptors(rank); });
  ASSIGN_OR_RETURN(const ControlListener listener, open_control_listener(across));
  const Nonce nonce = random_nonce();
  const Bytes value = ByteWriter().raw(nonce).text(listener.name).u16(listener.port).take();
  ASSIGN_OR_RETURN(const std::vector<Bytes> values, exchange(members, tag | kDeriveTag, value, deadline));

  MeshPlan plan = plan_;
  plan.rank = static_cast<Rank>(mine - members.begin());
  plan.name = name;
  plan.roster = {};
  for (size_t i = 0; i < members.size(); ++i) {
    ByteReader reader(values[i]);
    const Nonce part = reader.array<sizeof(Nonce)>();
    for (size_t k = 0; k < part.size(); ++k) plan.roster.nonce[k] ^= part[k];
    JoinRecord record = plan_.record(members[i]);
    record.rank = static_cast<Rank>(i);
    record.size = static_cast<Rank>(members.size());
    record.control_address = reader.text(kMaxAbstractNameBytes);
    record.port = reader.u16();
    if (!reader.finished()) return Status(Code::kInternal, describe(record) + " sent a malformed control address");
    plan.roster.records.push_back(std::move(record));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> mesh, connect(plan, listener, deadline));
  return mesh;
}

}  // namespace gimbal
