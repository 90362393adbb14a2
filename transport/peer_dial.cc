#include "transport/peer_dial.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/deadline.h"

namespace gimbal {
namespace {

constexpr int64_t kNextAfterNs = 250'000'000;  // RFC 8305, section 5: Connection Attempt Delay
// A full queue of connections, or one that ended in the middle, at the end of this is worth another try.
constexpr int64_t kAgainAfterNs = 1'000'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

bool is_unix(const SocketAddress& address) { return address.storage.ss_family == AF_UNIX; }

}  // namespace

PeerDial::PeerDial(std::vector<SocketAddress> addresses, const JobKey& key, const Claim& claim) : key_(key), claim_(claim) {
  const int64_t now_ns = monotonic_ns();
  for (SocketAddress& address : addresses) {
    tries_.push_back({.address = std::move(address), .start_ns = tries_.empty() ? now_ns : kNever});
  }
}

HelloClient::Step PeerDial::step() {
  start_due(monotonic_ns());
  for (Try& one : tries_) {
    if (one.client && step_one(one)) return HelloClient::Step::kDone;
  }
  const bool all_failed = std::ranges::all_of(tries_, [](const Try& one) { return one.failed; });
  return all_failed ? HelloClient::Step::kFailed : HelloClient::Step::kAgain;
}

void PeerDial::start_due(int64_t now_ns) {
  for (size_t i = 0; i < tries_.size(); ++i) {
    Try& one = tries_[i];
    if (one.failed || one.client || one.start_ns > now_ns) continue;
    one.client.emplace(one.address, key_, claim_);
    const bool next_waits = i + 1 < tries_.size() && tries_[i + 1].start_ns == kNever;
    if (next_waits && !is_unix(one.address)) tries_[i + 1].start_ns = now_ns + kNextAfterNs;
  }
}

bool PeerDial::step_one(Try& one) {
  switch (one.client->step()) {
    case HelloClient::Step::kAgain:
      return false;
    case HelloClient::Step::kDone:
      reached_ = one.address;
      connection_ = one.client->take();
      return true;
    case HelloClient::Step::kFailed:
      break;
  }
  const int error_number = one.client->error_number();
  one.failure = one.client->failure().message();
  const bool again = error_number == EAGAIN || (error_number == 0 && one.client->worth_another_try());
  one.client.reset();
  one.start_ns = monotonic_ns() + kAgainAfterNs;
  one.failed = !again;
  const auto waiting = std::ranges::find(tries_, kNever, &Try::start_ns);
  if (one.failed && waiting != tries_.end()) waiting->start_ns = monotonic_ns();
  return false;
}

void PeerDial::add_polled(std::vector<pollfd>& polled) const {
  for (const Try& one : tries_) {
    if (one.client) polled.push_back({.fd = one.client->fd(), .events = one.client->events(), .revents = 0});
  }
}

int64_t PeerDial::next_start_ns() const {
  int64_t next_ns = kNever;
  for (const Try& one : tries_) {
    if (!one.client && !one.failed) next_ns = std::min(next_ns, one.start_ns);
  }
  return next_ns;
}

std::string PeerDial::failures() const {
  std::string text;
  for (const Try& one : tries_) {
    if (one.failure.empty() && !one.client) continue;
    text += (text.empty() ? "" : "; ") + (one.client ? one.client->late().message() : one.failure);
  }
  return text;
}

}  // namespace gimbal
