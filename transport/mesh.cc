#include "transport/mesh.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <numeric>

#include "transport/socket.h"

namespace gimbal {
namespace {

bool is_readable(int fd, int timeout_ms) {
  pollfd entry = {.fd = fd, .events = POLLIN, .revents = 0};
  return fd >= 0 && poll(&entry, 1, timeout_ms) > 0;
}

Status too_large(size_t bytes) {
  return {Code::kInvalidArgument,
          "control message of " + std::to_string(bytes) + " bytes: at most " + std::to_string(kMaxFrameBytes) + " are allowed"};
}

}  // namespace

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

bool Mesh::passes_descriptors(Rank peer) const { return peer == plan_.rank || peers_[static_cast<size_t>(peer)].shares_memory; }

Status Mesh::send_descriptor(Rank peer, int fd, Deadline deadline) {
  RETURN_IF_ERROR(check_peer_argument(peer));
  RETURN_IF_ERROR(check_passes_descriptors(peer));
  FileDescriptor copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));  // outlives the call when the deadline comes first
  if (!copy.valid()) return system_error("descriptor for " + describe(plan_.record(peer)), errno);
  const Use use(*this);
  at(peer).connection.queue_descriptor(std::move(copy));
  return pump(
      std::array{peer}, [](Rank) { return false; }, "", deadline);
}

Result<FileDescriptor> Mesh::receive_descriptor(Rank peer, Deadline deadline) {
  RETURN_IF_ERROR(check_peer_argument(peer));
  RETURN_IF_ERROR(check_passes_descriptors(peer));
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

Status Mesh::check_passes_descriptors(Rank peer) const {
  if (passes_descriptors(peer)) return {};
  return {Code::kUnsupported, describe(plan_.record(peer)) + " shares no memory with rank " + std::to_string(plan_.rank) +
                                  ": a descriptor cannot be passed"};
}

Status Mesh::pump(std::span<const Rank> involved, const std::function<bool(Rank)>& pending, const char* what,
                  Deadline deadline) {
  Status status = pump_all(involved, pending, what, deadline);
  if (!status.ok()) tell_fault_now(status);
  return status;
}

// Without use_: what is asked may hear this very mesh.
Status Mesh::ask_interrupted() {
  use_.unlock();
  Status status = plan_.interrupted();
  use_.lock();
  return status;
}

Status Mesh::pump_all(std::span<const Rank> involved, const std::function<bool(Rank)>& pending, const char* what,
                      Deadline deadline) {
  std::vector<Rank> waiting(involved.begin(), involved.end());
  bool ended_before = false;
  for (;;) {
    send_posts();
    for (const Rank rank : waiting) RETURN_IF_ERROR(at(rank).connection.flush());
    const auto is_done = [&](Rank rank) { return !pending(rank) && !at(rank).connection.has_unsent(); };
    std::erase_if(waiting, is_done);
    if (waiting.empty()) return {};
    if (Status interrupted = ask_interrupted(); !interrupted.ok()) {
      // Who failed may have taken part in this call first.
      RETURN_IF_ERROR(read_arrivals());
      std::erase_if(waiting, is_done);
      return waiting.empty() ? Status() : interrupted;
    }
    for (const Rank rank : waiting) {
      if (const Status& fault = at(rank).connection.fault(); !fault.ok() && !among_survivors_) return fault;
      const bool closed = at(rank).connection.closed();
      // A process may have sent what is awaited just before it ended: it is read once more.
      if (closed || (ended_before && has_ended(rank))) return report_gone(choose_culprit(rank, involved));
    }
    if (deadline.passed()) {
      const std::string peer = describe(plan_.record(waiting.front()));
      return {Code::kTimeout, *what == '\0' ? peer + " took no more bytes of a control message before the deadline"
                                            : std::string("no ") + what + " from " + peer + " before the deadline"};
    }
    ended_before = wait_for_peers(waiting, deadline);
    RETURN_IF_ERROR(read_arrivals());
  }
}

// Of several that are gone the one whose process ended is the cause.
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
  poll(polled.data(), polled.size(), std::min(kLookAgainMs, deadline.remaining_ms()));
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
      if (connection.host_is_silent()) {
        const std::lock_guard<std::mutex> lock(gone_mutex_);
        silent_.insert(rank);
      }
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
  // A dying process closes its sockets a moment before it has ended; this is for the sentence only.
  constexpr int kEndsWithinMs = 20;
  const char* why = "it closed its control connection";
  if (is_readable(at(rank).process.get(), kEndsWithinMs)) why = "its process ended";
  int error_number = 0;
  socklen_t length = sizeof(error_number);
  getsockopt(at(rank).connection.fd(), SOL_SOCKET, SO_ERROR, &error_number, &length);

  const std::lock_guard<std::mutex> lock(gone_mutex_);
  if (std::find(gone_.begin(), gone_.end(), rank) == gone_.end()) gone_.push_back(rank);
  if (is_silence(error_number)) silent_.insert(rank);
  if (silent_.contains(rank)) why = "its host, or the way there, does not answer";
  return {Code::kRemote, describe(plan_.record(rank)) + " is gone: " + why};
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
