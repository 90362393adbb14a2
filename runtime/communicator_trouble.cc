// What a communicator's waits look at, and what becomes of an error: announcements, peers' lives, deadlines, faults and aborts.
#include <poll.h>

#include <cstdio>

#include "runtime/communicator.h"
#include "runtime/cuda/native_setup.h"

namespace gimbal {
namespace {

// How often a sleeping rank looks whether its peers live.
constexpr int64_t kPeerCheckNs = 40'000'000;

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", value);
  return text;
}

}  // namespace

Status Communicator::look_around(const Operation& operation, const Signature& signature, WaitClock& clock) {
  const int64_t now = monotonic_ns();
  if (clock.started_ns == 0) clock.started_ns = now;
  const bool collective = signature.sequence != 0;
  // Not there yet itself: its stream has not come to the operation.
  const bool is_late = operation.waiting_for() == rank();
  if (collective && !clock.announced && !is_late) {
    clock.announced = true;
    // Small operations announce themselves only when they have to wait long.
    const Announcement& own = control(rank()).board[signature.sequence % kBoardEntries];
    if (static_cast<uint32_t>(own.word.load(std::memory_order_relaxed) >> 32) != signature.sequence) {
      announce(control(rank()), signature, 1.0, 0, 0);
      memory_->ring_all();
    }
  }
  if (spans_nodes()) {
    RETURN_IF_ERROR(hear_other_nodes());
    // Announced only where a wait is long: each tells all ranks of all other nodes.
    if (collective && !is_late && now - clock.started_ns >= kPeerCheckNs) news_->announce(signature);
  }
  if (collective) {
    if (Status status = compare_announced(signature); !status.ok()) return fail(status, &signature);
  }
  if (now >= clock.next_peer_check_ns) {
    clock.next_peer_check_ns = now + kPeerCheckNs;
    if (Status status = check_peers(operation, clock); !status.ok()) return fail(status, &signature);
  }
  const int64_t waited_ms = (now - clock.started_ns) / 1'000'000;
  if (waited_ms >= settings_.timeout_ms) {
    return fail(deadline_passed(operation, signature, static_cast<double>(waited_ms) / 1000), &signature);
  }
  if (!clock.warned && waited_ms >= settings_.warn_after_ms) {
    clock.warned = true;
    log_.warning(describe(signature) + " has waited " + seconds(static_cast<double>(waited_ms) / 1000) + " for " +
                 describe_late(operation, signature));
  }
  return {};
}

Status Communicator::compare_announced(const Signature& mine) {
  RETURN_IF_ERROR(compare_announcements(*context_, mine));
  if (!spans_nodes()) return {};
  const std::optional<RemoteNews::Difference> difference = news_->find_difference(mine);
  return difference ? mismatch(rank(), mine, difference->peer, difference->theirs) : Status();
}

// What a rank sees of a failure on another node is often that a connection has closed. Whoever closed it in good order, or for
// a fault, says so on its control connection before it closes that too.
Status Communicator::find_cause(const Status& seen) {
  constexpr int64_t kCauseFollowsMs = 200;
  const Deadline patience = Deadline::after_ms(seen.code() == Code::kRemote ? kCauseFollowsMs : 0);
  while (true) {
    RETURN_IF_ERROR(hear_other_nodes());
    RETURN_IF_ERROR(find_dead_peer());
    if (patience.passed()) return seen;
    pollfd entry = {.fd = bootstrap_->arrival_descriptor(), .events = POLLIN, .revents = 0};
    poll(&entry, 1, patience.remaining_ms());
  }
}

Status Communicator::hear_other_nodes() {
  const Status unreadable = news_->update();
  const std::optional<RemoteNews::Fault> fault = news_->fault();
  if (!fault && unreadable.ok()) return {};
  memory_->raise_fault(fault ? fault->status : unreadable, fault ? fault->origin : rank());
  return adopt_fault();
}

bool Communicator::has_departed(Rank peer) const {
  return is_local(peer) ? control(peer).departed.load(std::memory_order_acquire) != 0 : news_->has_departed(peer);
}

Status Communicator::find_dead_peer() {
  if (bootstrap_->check_peers().ok()) return {};
  for (const Rank peer : bootstrap_->gone()) {
    if (!has_departed(peer)) return {Code::kRemote, describe_rank(peer) + " is gone: its process ended"};
  }
  return {};
}

Status Communicator::check_peers(const Operation& operation, WaitClock& clock) {
  RETURN_IF_ERROR(find_dead_peer());
  // Who left in good order has said in shared memory what it had to say; only who still needs it has lost. It may have said it
  // between the operation's last look and its leaving, so another look comes first; a move there begins a new clock.
  const Rank awaited = operation.waiting_for();
  if (awaited < 0 || awaited == rank() || !has_departed(awaited)) return {};
  if (clock.departed == awaited) {
    return {Code::kRemote, describe_rank(awaited) + " has left: it destroyed its communicator or ended"};
  }
  clock.departed = awaited;
  // A peer's network adapter may have an answer for what it sent while that is still on its way into this rank's memory.
  constexpr int64_t kStillArrivesNs = 200'000'000;
  clock.next_peer_check_ns = is_local(awaited) ? 0 : monotonic_ns() + kStillArrivesNs;
  return {};
}

std::string Communicator::describe_rank(Rank rank) const {
  const PeerIdentity& peer = bootstrap_->peers()[static_cast<size_t>(rank)];
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(peer.pid) + " on host " + peer.host + ")";
}

bool Communicator::has_announced(Rank peer, uint32_t sequence) const {
  uint32_t announced = 0;
  if (is_local(peer)) {
    const Announcement& entry = control(peer).board[sequence % kBoardEntries];
    announced = static_cast<uint32_t>(entry.word.load(std::memory_order_relaxed) >> 32);
  } else if (const std::optional<Signature> signature = news_->announced(peer)) {
    announced = signature->sequence;
  }
  return announced != 0 && static_cast<int32_t>(announced - sequence) >= 0;
}

// Those who have not announced the operation are late; when all have, the one that this rank waits for is stuck.
std::string Communicator::describe_late(const Operation& operation, const Signature& signature) const {
  if (operation.waiting_for() == rank()) return "this rank's own stream, on which earlier work has not ended";
  std::string late;
  int more = 0;
  for (Rank peer = 0; signature.sequence != 0 && peer < size(); ++peer) {
    if (has_announced(peer, signature.sequence)) continue;
    constexpr int kNamed = 4;
    if (++more > kNamed) continue;
    late += (late.empty() ? "" : ", ") + describe_rank(peer);
  }
  if (more > 4) late += " and " + std::to_string(more - 4) + " more";
  if (late.empty() && operation.waiting_for() >= 0) late = describe_rank(operation.waiting_for());
  return late.empty() ? "its peers" : late;
}

Status Communicator::deadline_passed(const Operation& operation, const Signature& signature, double waited_s) const {
  return {Code::kTimeout, "waited " + seconds(waited_s) + " for " + describe_late(operation, signature)};
}

Status Communicator::fail(const Status& error, const Signature* signature) {
  const Status status = spans_nodes() && loses_communicator(error.code()) && !faulted() ? find_cause(error) : error;
  std::string sentence = status.message();
  if (signature != nullptr) {
    sentence = describe(*signature) + " on communicator \"" + name() + "\", rank " + std::to_string(rank()) + ": " + sentence;
  }
  const Status described(status.code(), sentence);
  if (!loses_communicator(status.code())) return described;
  if (memory_ != nullptr) {
    const bool first = memory_->raise_fault(described, rank());
    if (first && spans_nodes()) news_->tell_fault(described, rank());
    return adopt_fault();
  }
  const std::lock_guard<std::mutex> lock(status_mutex_);
  status_ = described;
  failed_.store(true, std::memory_order_release);
  return described;
}

Status Communicator::adopt_fault() {
  const NodeMemory::Fault fault = memory_->fault();
  {
    const std::lock_guard<std::mutex> lock(status_mutex_);
    if (device_setup_ != nullptr) device_setup_->abort();
    if (!status_.ok()) return status_;
    status_ = fault.status;
    failed_.store(true, std::memory_order_release);
  }
  log_.info(fault.status.message());
  write_flight_recorder();
  if (metrics_ != nullptr) write_metrics();
  return fault.status;
}

void Communicator::watch_device(const NativeSetup* setup) {
  const std::lock_guard<std::mutex> lock(status_mutex_);
  device_setup_ = setup;
}

void Communicator::abort() {
  const Status aborted(Code::kAborted, "communicator \"" + name() + "\" was aborted by rank " + std::to_string(rank()));
  if (fork_guard_.in_child()) return;
  aborted_.store(true, std::memory_order_release);
  static_cast<void>(fail(aborted, nullptr));  // the status is the abort itself
}

Status Communicator::status() const {
  if (spans_nodes()) static_cast<void>(news_->update());  // what cannot be read is the next operation's error
  const std::lock_guard<std::mutex> lock(status_mutex_);
  if (status_.ok() && memory_ != nullptr && memory_->faulted()) {
    if (device_setup_ != nullptr) device_setup_->abort();  // a graph that is replayed has no other who would
    return memory_->fault().status;
  }
  if (status_.ok() && device_setup_ != nullptr) return device_setup_->report();
  if (status_.ok() && spans_nodes() && news_->fault()) return news_->fault()->status;
  return status_;
}

}  // namespace gimbal
