// What ranks tell each other when something has failed: why one gives the mesh up, and who is left.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "transport/mesh.h"

namespace gimbal {

void Mesh::tell_all(FrameKind kind, std::span<const std::byte> payload) {
  const auto shared = std::make_shared<const Bytes>(payload.begin(), payload.end());
  for (Peer& peer : peers_) {
    if (peer.connection.fd() < 0 || peer.connection.closed()) continue;
    peer.connection.queue(kind, 0, shared);
    // Whom it does not reach is gone, or finds this rank's connection closed.
    static_cast<void>(peer.connection.flush());
  }
}

void Mesh::tell_fault_now(const Status& fault) {
  if (fault_told_ || among_survivors_) return;
  fault_told_ = true;
  tell_all(FrameKind::kFault, encode_fault(fault));
}

void Mesh::tell_fault(const Status& fault) {
  const Use use(*this);
  tell_fault_now(fault);
}

void Mesh::tell_survivors(std::span<const std::byte> message) {
  const Use use(*this);
  among_survivors_ = true;
  tell_all(FrameKind::kSurvivor, message);
}

std::vector<Bootstrap::Heard> Mesh::hear_survivors(std::span<const Rank> awaited, Deadline deadline) {
  std::vector<Heard> news;
  for (;;) {
    std::vector<pollfd> polled = {{.fd = arrivals_.get(), .events = POLLIN, .revents = 0}};
    {
      const Use use(*this);
      take_heard(awaited, news);
      for (const Peer& peer : peers_) {
        const bool unsent = peer.connection.has_unsent() && !peer.connection.closed();
        polled.push_back({.fd = unsent ? peer.connection.fd() : -1, .events = POLLOUT, .revents = 0});
      }
    }
    for (const Rank rank : awaited) polled.push_back({.fd = at(rank).process.get(), .events = POLLIN, .revents = 0});
    if (!news.empty() || deadline.passed()) return news;
    poll(polled.data(), polled.size(), deadline.remaining_ms());
  }
}

void Mesh::take_heard(std::span<const Rank> awaited, std::vector<Heard>& news) {
  among_survivors_ = true;
  // Looked at before the reading: what a process sent before it ended is heard first.
  std::vector<Rank> gone;
  for (const Rank rank : awaited) {
    if (has_ended(rank)) gone.push_back(rank);
  }
  send_posts();
  static_cast<void>(read_arrivals());  // who sends what nobody can read is not heard, and so falls silent
  for (Rank rank = 0; rank < plan_.size(); ++rank) {
    while (std::optional<Bytes> message = at(rank).connection.take_survivor_message()) {
      news.push_back({.from = rank, .message = *std::move(message), .silent = false});
    }
  }
  for (const Rank rank : awaited) {
    if (at(rank).connection.closed() && std::find(gone.begin(), gone.end(), rank) == gone.end()) gone.push_back(rank);
  }
  for (const Rank rank : gone) {
    const bool silent = at(rank).connection.host_is_silent() && !has_ended(rank);
    news.push_back({.from = rank, .message = std::nullopt, .silent = silent});
  }
}

}  // namespace gimbal
