#include "transport/mesh.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <numeric>

#include "transport/descriptor_limit.h"
#include "transport/socket.h"

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

bool is_readable(int fd, int timeout_ms) {
  pollfd entry = {.fd = fd, .events = POLLIN, .revents = 0};
  return fd >= 0 && poll(&entry, 1, timeout_ms) > 0;
}

Status too_large(size_t bytes) {
  return {Code::kInvalidArgument,
          "control message of " + std::to_string(bytes) + " bytes: at most " + std::to_string(kMaxFrameBytes) + " are allowed"};
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::connect(const MeshPlan& plan, FileDescriptor listener, Deadline deadline) {
  ASSIGN_OR_RETURN(std::vector<FileDescriptor> sockets, connect_mesh(plan, listener.get(), deadline));
  listener.reset();
  std::unique_ptr<Mesh> mesh(new Mesh(plan, std::move(sockets)));
  RETURN_IF_ERROR(mesh->watch_arrivals());
  RETURN_IF_ERROR(mesh->all_gather({}, deadline));
  return mesh;
}

Mesh::Mesh(const MeshPlan& plan, std::vector<FileDescriptor> sockets) : plan_(plan), peers_(sockets.size()) {
  for (size_t i = 0; i < sockets.size(); ++i) {
    const JoinRecord& record = plan_.roster.records[i];
    identities_.push_back(
        {.rank = record.rank, .pid = record.pid, .host = record.host, .control_address = "unix:" + record.control_address});
    if (!sockets[i].valid()) continue;
    peers_[i].process = watch_process(sockets[i].get());
    peers_[i].connection = ControlConnection(std::move(sockets[i]), describe(record));
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

Result<std::unique_ptr<Bootstrap>> Mesh::derive(std::span<const Rank> members, const std::string& name, uint64_t tag,
                                                Deadline deadline) {
  const auto mine = std::find(members.begin(), members.end(), plan_.rank);
  if (mine == members.end()) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(plan_.rank) + " is not a member of \"" + name + "\"");
  }
  RETURN_IF_ERROR(reserve_descriptors(2 * members.size() + 3));
  ASSIGN_OR_RETURN(ControlListener listener, open_control_listener());
  const Nonce nonce = random_nonce();
  const Bytes value = ByteWriter().raw(nonce).text(listener.address).take();
  ASSIGN_OR_RETURN(const std::vector<Bytes> values, exchange(members, tag | kDeriveTag, value, deadline));

  MeshPlan plan{.rank = static_cast<Rank>(mine - members.begin()), .name = name, .job_key = plan_.job_key, .roster = {}};
  for (size_t i = 0; i < members.size(); ++i) {
    ByteReader reader(values[i]);
    const Nonce part = reader.array<sizeof(Nonce)>();
    for (size_t k = 0; k < part.size(); ++k) plan.roster.nonce[k] ^= part[k];
    JoinRecord record = plan_.roster.records[static_cast<size_t>(members[i])];
    record.rank = static_cast<Rank>(i);
    record.size = static_cast<Rank>(members.size());
    record.control_address = reader.text(kMaxAbstractNameBytes);
    if (!reader.finished()) return Status(Code::kInternal, describe(record) + " sent a malformed control address");
    plan.roster.records.push_back(std::move(record));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> mesh, connect(plan, std::move(listener.socket), deadline));
  return mesh;
}

Result<std::vector<Bytes>> Mesh::all_gather(std::span<const std::byte> value, Deadline deadline) {
  std::vector<Rank> everyone(peers_.size());
  std::iota(everyone.begin(), everyone.end(), Rank{0});
  return exchange(everyone, gathers_++, value, deadline);
}

// Every member sends to every other one: p^2 small messages, but each value comes from its owner, so that a rank that dies is
// named by all others and one that has finished may leave.
Result<std::vector<Bytes>> Mesh::exchange(std::span<const Rank> members, uint64_t tag, std::span<const std::byte> value,
                                          Deadline deadline) {
  if (value.size() > kMaxFrameBytes) return too_large(value.size());
  const Use use(*this);
  const auto shared = std::make_shared<const Bytes>(value.begin(), value.end());
  std::vector<std::optional<Bytes>> values(peers_.size());
  std::vector<Rank> others;
  values[static_cast<size_t>(plan_.rank)] = *shared;
  for (const Rank member : members) {
    if (member == plan_.rank) continue;
    others.push_back(member);
    at(member).connection.queue(FrameKind::kGather, tag, shared);
  }
  const auto pending = [&](Rank rank) {
    std::optional<Bytes>& slot = values[static_cast<size_t>(rank)];
    if (!slot) slot = at(rank).connection.take_gathered(tag);
    return !slot;
  };
  RETURN_IF_ERROR(pump(others, pending, "value", deadline));
  std::vector<Bytes> ordered;
  for (const Rank member : members) ordered.push_back(*std::move(values[static_cast<size_t>(member)]));
  return ordered;
}

Status Mesh::send(Rank peer, std::span<const std::byte> value, Deadline deadline) {
  RETURN_IF_ERROR(check_peer_argument(peer));
  if (value.size() > kMaxFrameBytes) return too_large(value.size());
  const Use use(*this);
  at(peer).connection.queue(FrameKind::kMessage, 0, std::make_shared<const Bytes>(value.begin(), value.end()));
  return pump(
      std::array{peer}, [](Rank) { return false; }, "", deadline);
}

Result<Bytes> Mesh::receive(Rank peer, Deadline deadline) {
  RETURN_IF_ERROR(check_peer_argument(peer));
  const Use use(*this);
  std::optional<Bytes> message;
  const auto pending = [&](Rank rank) {
    if (!message) message = at(rank).connection.take_message();
    return !message;
  };
  RETURN_IF_ERROR(pump(std::array{peer}, pending, "message", deadline));
  return *std::move(message);
}

bool Mesh::passes_descriptors(Rank peer) const {
  int family = AF_UNSPEC;
  socklen_t length = sizeof(family);
  const int socket = peers_[static_cast<size_t>(peer)].connection.fd();
  return peer == plan_.rank || (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && family == AF_UNIX);
}

Status Mesh::send_descriptor(Rank peer, int fd, Deadline deadline) {
  RETURN_IF_ERROR(check_peer_argument(peer));
  FileDescriptor copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));  // outlives the call when the deadline comes first
  if (!copy.valid()) return system_error("descriptor for " + describe(plan_.roster.records[static_cast<size_t>(peer)]), errno);
  const Use use(*this);
  at(peer).connection.queue_descriptor(std::move(copy));
  return pump(
      std::array{peer}, [](Rank) { return false; }, "", deadline);
}

Result<FileDescriptor> Mesh::receive_descriptor(Rank peer, Deadline deadline) {
  RETURN_IF_ERROR(check_peer_argument(peer));
  const Use use(*this);
  std::optional<FileDescriptor> fd;
  const auto pending = [&](Rank rank) {
    if (!fd) fd = at(rank).connection.take_descriptor();
    return !fd;
  };
  RETURN_IF_ERROR(pump(std::array{peer}, pending, "descriptor", deadline));
  return *std::move(fd);
}

Status Mesh::check_peer_argument(Rank peer) const {
  if (peer >= 0 && peer < plan_.size() && peer != plan_.rank) return {};
  return {Code::kInvalidArgument, "rank " + std::to_string(peer) + " is no peer of rank " + std::to_string(plan_.rank) +
                                      " in \"" + plan_.name + "\" of " + std::to_string(plan_.size()) + " ranks"};
}

Status Mesh::pump(std::span<const Rank> involved, const std::function<bool(Rank)>& pending, const char* what,
                  Deadline deadline) {
  std::vector<Rank> waiting(involved.begin(), involved.end());
  bool ended_before = false;
  for (;;) {
    send_posts();
    for (const Rank rank : waiting) RETURN_IF_ERROR(at(rank).connection.flush());
    const auto is_done = [&](Rank rank) { return !pending(rank) && !at(rank).connection.has_unsent(); };
    std::erase_if(waiting, is_done);
    if (waiting.empty()) return {};
    for (const Rank rank : waiting) {
      const bool closed = at(rank).connection.closed();
      // A process may have sent what is awaited just before it ended: it is read once more.
      if (!closed && !(ended_before && has_ended(rank))) continue;
      Status gone = report_gone(choose_culprit(rank, involved));
      let_others_see_the_cause();
      return gone;
    }
    if (deadline.passed()) {
      const std::string peer = describe(plan_.roster.records[static_cast<size_t>(waiting.front())]);
      return {Code::kTimeout, *what == '\0' ? peer + " took no more bytes of a control message before the deadline"
                                            : std::string("no ") + what + " from " + peer + " before the deadline"};
    }
    ended_before = wait_for_peers(waiting, deadline);
    RETURN_IF_ERROR(read_arrivals());
  }
}

// A rank that fails closes its connections, so a death is followed by closes: the one whose process ended is the cause.
Rank Mesh::choose_culprit(Rank closed, std::span<const Rank> involved) {
  const auto ended = std::find_if(involved.begin(), involved.end(), [this](Rank rank) { return has_ended(rank); });
  return ended == involved.end() ? closed : *ended;
}

// Returns whether a process among them has ended.
bool Mesh::wait_for_peers(std::span<const Rank> waiting, Deadline deadline) {
  std::vector<pollfd> polled = {{.fd = arrivals_.get(), .events = POLLIN, .revents = 0},
                                {.fd = posted_.get(), .events = POLLIN, .revents = 0}};
  for (const Rank rank : waiting) {
    const bool unsent = at(rank).connection.has_unsent();
    polled.push_back({.fd = unsent ? at(rank).connection.fd() : -1, .events = POLLOUT, .revents = 0});
    polled.push_back({.fd = at(rank).process.get(), .events = POLLIN, .revents = 0});
  }
  poll(polled.data(), polled.size(), deadline.remaining_ms());
  for (size_t i = 3; i < polled.size(); i += 2) {
    if (polled[i].revents != 0) return true;
  }
  return false;
}

Status Mesh::read_arrivals() {
  constexpr int kEventsPerLook = 64;
  std::array<epoll_event, kEventsPerLook> events;
  int count = kEventsPerLook;
  while (count == kEventsPerLook) {
    count = epoll_wait(arrivals_.get(), events.data(), kEventsPerLook, 0);
    for (int i = 0; i < count; ++i) {
      const auto rank = static_cast<Rank>(events[static_cast<size_t>(i)].data.u32);
      ControlConnection& connection = at(rank).connection;
      const Status status = connection.fill();
      // Its end would be readable for ever; so would what nobody can read.
      if (connection.closed() || !status.ok()) epoll_ctl(arrivals_.get(), EPOLL_CTL_DEL, connection.fd(), nullptr);
      const std::lock_guard<std::mutex> lock(news_mutex_);
      while (std::optional<Bytes> news = connection.take_news()) news_.push_back({rank, *std::move(news)});
      if (!status.ok()) return status;
    }
  }
  return {};
}

void Mesh::post(std::span<const Rank> to, std::span<const std::byte> value) {
  GIMBAL_DCHECK(value.size() <= kMaxFrameBytes);
  {
    const std::lock_guard<std::mutex> lock(news_mutex_);
    posts_.push_back({{to.begin(), to.end()}, std::make_shared<const Bytes>(value.begin(), value.end())});
  }
  send_posts_if_free();
  // Who holds use_ may be in poll().
  static_cast<void>(eventfd_write(posted_.get(), 1));
}

void Mesh::send_posts() {
  eventfd_t unused = 0;
  static_cast<void>(eventfd_read(posted_.get(), &unused));
  std::vector<Post> posts;
  {
    const std::lock_guard<std::mutex> lock(news_mutex_);
    posts.swap(posts_);
  }
  for (const Post& post : posts) {
    for (const Rank rank : post.to) at(rank).connection.queue(FrameKind::kNews, 0, post.value);
  }
  for (Peer& peer : peers_) {
    // A connection that fails is found by whoever reads from it.
    if (peer.connection.has_unsent()) static_cast<void>(peer.connection.flush());
  }
}

void Mesh::send_posts_if_free() {
  const auto has_posts = [this] {
    const std::lock_guard<std::mutex> lock(news_mutex_);
    return !posts_.empty();
  };
  while (has_posts() && use_.try_lock()) {
    send_posts();
    use_.unlock();
  }
}

Result<std::vector<Bootstrap::News>> Mesh::take_news() {
  Status status;
  // Who holds use_ reads for all.
  if (use_.try_lock()) {
    send_posts();
    status = read_arrivals();
    use_.unlock();
    send_posts_if_free();
  }
  const std::lock_guard<std::mutex> lock(news_mutex_);
  if (news_.empty() && !status.ok()) return status;
  std::vector<News> news(std::make_move_iterator(news_.begin()), std::make_move_iterator(news_.end()));
  news_.clear();
  return news;
}

bool Mesh::has_ended(Rank rank) { return is_readable(at(rank).process.get(), 0); }

Status Mesh::report_gone(Rank rank) {
  {
    const std::lock_guard<std::mutex> lock(gone_mutex_);
    if (std::find(gone_.begin(), gone_.end(), rank) == gone_.end()) gone_.push_back(rank);
  }
  // A dying process closes its sockets a moment before it has ended; this is for the sentence only.
  constexpr int kEndsWithinMs = 20;
  const bool ended = is_readable(at(rank).process.get(), kEndsWithinMs);
  return {Code::kRemote, describe(plan_.roster.records[static_cast<size_t>(rank)]) +
                             " is gone: " + (ended ? "its process ended" : "it closed its control connection")};
}

Status Mesh::check_peers() {
  std::vector<pollfd> polled;
  for (const Peer& peer : peers_) {
    // A message that nobody has read yet is not the end: only the peer's close counts.
    polled.push_back({.fd = peer.connection.fd(), .events = POLLRDHUP, .revents = 0});
    polled.push_back({.fd = peer.process.get(), .events = POLLIN, .revents = 0});
  }
  if (poll(polled.data(), polled.size(), 0) <= 0) return {};
  Status first;
  for (Rank rank = 0; rank < plan_.size(); ++rank) {
    const size_t i = 2 * static_cast<size_t>(rank);
    if (polled[i].revents == 0 && polled[i + 1].revents == 0) continue;
    Status status = report_gone(rank);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

std::vector<Rank> Mesh::gone() {
  const std::lock_guard<std::mutex> lock(gone_mutex_);
  return gone_;
}

}  // namespace gimbal
