#include "runtime/communicator.h"

#include <unistd.h>

#include <cstring>

#include "base/ticks.h"
#include "collectives/chunk_space.h"
#include "runtime/direct_exchange.h"
#include "runtime/message_exchange.h"
#include "runtime/scheduled_operations.h"
#include "runtime/small_exchange.h"
#include "runtime/staged_exchange.h"
#include "runtime/started_operations.h"

namespace gimbal {
namespace {

// How often a sleeping rank looks whether its peers live.
constexpr int64_t kPeerCheckNs = 40'000'000;

ReduceFunction reduce_function(const Call& call) {
  return reduces(call.collective) ? find_reduce(call.dtype, call.op) : nullptr;
}

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", value);
  return text;
}

}  // namespace

Communicator::Communicator(Settings settings, Log log)
    : settings_(std::move(settings)),
      log_(std::move(log)),
      allocations_(settings_.rank),
      spreader_(settings_.rank),
      waits_(settings_.size) {}

Communicator::~Communicator() { close(); }

void Communicator::close() {
  // A forked child shares the parent's words and has none of its threads: it must change nothing there, and join nothing.
  if (fork_guard_.in_child()) {
    static_cast<void>(started_.release());
    return;
  }
  started_.reset();
  if (memory_ != nullptr) memory_->control(rank()).departed.store(1, std::memory_order_release);
}

Status Communicator::check_not_forked() const {
  if (!fork_guard_.in_child()) [[likely]]
    return {};
  return {Code::kInvalidUsage, "communicator \"" + name() + "\" belongs to the parent of this forked process; create one here"};
}

Status Communicator::check_usable() const {
  RETURN_IF_ERROR(check_not_forked());
  if (failed_.load(std::memory_order_acquire)) [[unlikely]]
    return status();
  return {};
}

Status Communicator::run(const Call& call) {
  if (size() == 1) return run_single(call);
  if (is_message(call.collective)) return run_message(call);
  return run_collective(call);
}

Status Communicator::run_collective(const Call& call) {
  if (started_ != nullptr) [[unlikely]] {
    RETURN_IF_ERROR(started_->wait_for_collectives());
    // Messages under way that only the caller drives must go on while this collective waits: a peer may need them first.
    if (settings_.caller_progress && !started_->idle()) return run_started(call);
  }
  return run_now(call, make_signature(call, next_sequence()));
}

Status Communicator::run_now(const Call& call, const Signature& signature) {
  const uint64_t record = recorder_.begin(signature);
  Status status;
  if (choice_.is_small(call)) {
    SmallExchange operation(*context_, call, signature, reduce_function(call));
    status = drive(operation, signature);
  } else {
    Result<std::unique_ptr<Operation>> operation = make_operation(call, signature);
    status = operation.ok() ? drive(**operation, signature) : fail(operation.status(), &signature);
  }
  recorder_.end(record, status.code(), waited_ || !status.ok());
  if (status.ok()) count_operation(call.bytes());
  return status;
}

Status Communicator::run_message(const Call& call) {
  // What is under way must go on while this message waits: it takes its place behind.
  if (started_ != nullptr && !started_->idle()) return run_started(call);
  return run_now(call, make_signature(call, 0));
}

Status Communicator::run_started(const Call& call) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Request> request, started_->start(call));
  started_->wait(*request);
  return request->status();
}

Result<std::unique_ptr<Operation>> Communicator::make_operation(const Call& call, const Signature& signature) {
  if (is_message(call.collective)) {
    return std::unique_ptr<Operation>(new MessageExchange(call, rank(), message_lanes_->endpoint(call.root)));
  }
  const ReduceFunction reduce = reduce_function(call);
  if (choice_.is_small(call)) return std::unique_ptr<Operation>(new SmallExchange(*context_, call, signature, reduce));
  const std::string_view algorithm = choice_.algorithm(call);
  if (algorithm != kDirectAlgorithm) return scheduled_->make(call, signature, algorithm);
  const StagedChoice staged = choice_.staged(call, size());
  if (!allocations_.empty() && DirectExchange::serves(call.collective)) {
    const size_t factor = static_cast<size_t>(size());
    const uint64_t send_place =
        allocations_.place_of(call.send, call.bytes() * (call.collective == Collective::kReduceScatter ? factor : 1));
    const uint64_t recv_place =
        allocations_.place_of(call.recv, call.bytes() * (call.collective == Collective::kAllGather ? factor : 1));
    if (send_place != 0 && recv_place != 0) {
      return std::unique_ptr<Operation>(new DirectExchange(*context_, allocations_, call, signature, reduce, send_place,
                                                           recv_place, choice_.direct(call, size()), staged));
    }
  }
  return std::unique_ptr<Operation>(new StagedExchange(*context_, call, signature, reduce, staged));
}

Status Communicator::drive(Operation& operation, const Signature& signature) {
  // Most small operations end within a microsecond: look a few times before anything else is set up.
  constexpr int kQuickLooks = 8;
  waited_ = false;
  for (int look = 0; look < kQuickLooks; ++look) {
    Result<Progress> progress = operation.progress();
    if (!progress.ok()) return fail(progress.status(), &signature);
    if (*progress == Progress::kDone) return {};
  }
  waited_ = true;
  const uint64_t began = ticks();
  const WaitPolicy& policy = adaptive_policy_.next();
  Waiter waiter(policy, memory_->lot(), doorbell());
  WaitClock clock;
  uint64_t moves = operation.moves();
  LongestWait longest;
  while (true) {
    Result<Progress> progress = operation.progress();
    if (!progress.ok()) return fail(progress.status(), &signature);
    if (*progress == Progress::kDone) break;
    longest.look(operation.waiting_for(), operation.moves() != moves);
    if (memory_->faulted()) return adopt_fault();
    if (operation.moves() != moves) {
      moves = operation.moves();
      adaptive_policy_.ended(policy, waiter.only_spun());
      waiter.reset();
      clock = {};
      continue;
    }
    const bool spun_so_far = waiter.only_spun();
    const Waiter::Pause pause = waiter.pause();
    if (spun_so_far && !waiter.only_spun() && !oversubscribed_) spreader_.step_aside(*memory_);
    if (pause >= Waiter::Pause::kArmed) RETURN_IF_ERROR(look_around(operation, signature, clock));
  }
  adaptive_policy_.ended(policy, waiter.only_spun());
  longest.end();
  waits_.add(longest.rank(), ticks() - began);
  return {};
}

Status Communicator::look_around(const Operation& operation, const Signature& signature, WaitClock& clock) {
  const int64_t now = monotonic_ns();
  if (clock.started_ns == 0) clock.started_ns = now;
  const bool collective = signature.sequence != 0;
  if (collective && !clock.announced) {
    clock.announced = true;
    // Small operations announce themselves only when they have to wait long.
    const Announcement& own = memory_->control(rank()).board[signature.sequence % kBoardEntries];
    if (static_cast<uint32_t>(own.word.load(std::memory_order_relaxed) >> 32) != signature.sequence) {
      announce(memory_->control(rank()), signature, 1.0, 0, 0);
      memory_->ring_all();
    }
  }
  if (collective) {
    if (Status status = compare_announcements(*context_, signature); !status.ok()) return fail(status, &signature);
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

Status Communicator::check_peers(const Operation& operation, WaitClock& clock) {
  const auto has_departed = [this](Rank peer) { return memory_->control(peer).departed.load(std::memory_order_acquire) != 0; };
  if (!bootstrap_->check_peers().ok()) {
    for (const Rank peer : bootstrap_->gone()) {
      if (!has_departed(peer)) return {Code::kRemote, describe_rank(peer) + " is gone: its process ended"};
    }
  }
  // Who left in good order has said in shared memory what it had to say; only who still needs it has lost. It may have said it
  // between the operation's last look and its leaving, so another look comes first; a move there begins a new clock.
  const Rank awaited = operation.waiting_for();
  if (awaited < 0 || !has_departed(awaited)) return {};
  if (clock.departed == awaited) {
    return {Code::kRemote, describe_rank(awaited) + " has left: it destroyed its communicator or ended"};
  }
  clock.departed = awaited;
  clock.next_peer_check_ns = 0;
  return {};
}

std::string Communicator::describe_rank(Rank rank) const {
  const PeerIdentity& peer = bootstrap_->peers()[static_cast<size_t>(rank)];
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(peer.pid) + " on host " + peer.host + ")";
}

// Those who have not announced the operation are late; when all have, the one that this rank waits for is stuck.
std::string Communicator::describe_late(const Operation& operation, const Signature& signature) const {
  std::string late;
  int more = 0;
  for (Rank peer = 0; signature.sequence != 0 && peer < size(); ++peer) {
    const Announcement& entry = memory_->control(peer).board[signature.sequence % kBoardEntries];
    const auto announced = static_cast<uint32_t>(entry.word.load(std::memory_order_relaxed) >> 32);
    if (static_cast<int32_t>(announced - signature.sequence) >= 0 && announced != 0) continue;
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

Status Communicator::fail(const Status& status, const Signature* signature) {
  std::string sentence = status.message();
  if (signature != nullptr) {
    sentence = describe(*signature) + " on communicator \"" + name() + "\", rank " + std::to_string(rank()) + ": " + sentence;
  }
  const Status described(status.code(), sentence);
  if (!loses_communicator(status.code())) return described;
  if (memory_ != nullptr) {
    memory_->raise_fault(described, rank());
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
    if (!status_.ok()) return status_;
    status_ = fault.status;
    failed_.store(true, std::memory_order_release);
  }
  log_.info(fault.status.message());
  write_flight_recorder();
  return fault.status;
}

void Communicator::abort() {
  const Status aborted(Code::kAborted, "communicator \"" + name() + "\" was aborted by rank " + std::to_string(rank()));
  if (fork_guard_.in_child()) return;
  static_cast<void>(fail(aborted, nullptr));  // the status is the abort itself
}

Status Communicator::status() const {
  const std::lock_guard<std::mutex> lock(status_mutex_);
  if (status_.ok() && memory_ != nullptr && memory_->faulted()) return memory_->fault().status;
  return status_;
}

void Communicator::write_flight_recorder() const {
  if (settings_.flight_recorder.empty()) return;
  std::string path;
  for (size_t i = 0; i < settings_.flight_recorder.size(); ++i) {
    const std::string two = settings_.flight_recorder.substr(i, 2);
    if (two == "%r" || two == "%p") {
      path += std::to_string(two == "%r" ? static_cast<int64_t>(rank()) : static_cast<int64_t>(getpid()));
      ++i;
    } else {
      path += settings_.flight_recorder[i];
    }
  }
  if (Status written = dump(path); !written.ok()) log_.warning(written.message());
}

Status Communicator::dump(const std::string& path) const {
  Status current;
  {
    const std::lock_guard<std::mutex> lock(status_mutex_);
    current = status_;
  }
  return recorder_.write_json(path, name(), rank(), size(), current);
}

void Communicator::read_stats(gimbal_stats_t& stats) const {
  stats.operations = own_count_.operations() + background_count_.operations();
  stats.bytes = own_count_.bytes() + background_count_.bytes();
  stats.wait_ns = waits_.total_ns();
  const WaitStatistics::Latest latest = waits_.latest();
  stats.last_arrived_rank = latest.rank;
  stats.last_arrived_ns = latest.mean_ns;
  stats.host_bytes = sizeof(*this) + allocations_.resident_bytes();
  if (memory_ != nullptr) stats.host_bytes += memory_->segment().resident_bytes() / static_cast<size_t>(size());
}

std::string Communicator::explain(Collective collective, size_t bytes, DType dtype) const {
  Call call;
  call.collective = collective;
  call.dtype = dtype;
  call.count = bytes / dtype_size(dtype);
  return size() == 1 ? "one rank: a copy inside this process" : choice_.explain(call, size());
}

StartedOperations& Communicator::started() {
  const std::lock_guard<std::mutex> lock(started_mutex_);
  if (started_ == nullptr) started_ = std::make_unique<StartedOperations>(*this);
  return *started_;
}

Status Communicator::run_single(const Call& call) {
  if (is_message(call.collective)) {
    return {Code::kInvalidArgument, "peer " + std::to_string(call.root) + " is this rank itself: there is nobody to send to"};
  }
  const size_t bytes = call.element_bytes() * (call.recv_counts != nullptr ? call.recv_counts[0] : call.count);
  if (call.normalize && call.weight == 0) {
    return {Code::kInvalidArgument, "the weights of all ranks sum to 0: there is no weighted mean"};
  }
  count_operation(call.bytes());
  if (bytes == 0) return {};
  if (call.weighted) {
    const ReduceSource source = {call.send, Form::kElement, call.weight};
    void* const destination = call.recv;
    ReduceArguments arguments;
    arguments.sources = {&source, 1};
    arguments.destinations = {&destination, 1};
    arguments.count = call.count;
    if (call.normalize) arguments.divisor = call.weight;
    find_reduce(call.dtype, call.op)(arguments);
    return {};
  }
  const size_t from = call.send_displacements != nullptr ? call.send_displacements[0] * call.element_bytes() : 0;
  const size_t to = call.recv_displacements != nullptr ? call.recv_displacements[0] * call.element_bytes() : 0;
  std::memmove(static_cast<std::byte*>(call.recv) + to, static_cast<const std::byte*>(call.send) + from, bytes);
  return {};
}

}  // namespace gimbal
