#include "runtime/communicator.h"

#include <unistd.h>

#include <cstring>

#include "base/ticks.h"
#include "collectives/chunk_space.h"
#include "runtime/alone.h"
#include "runtime/cuda/device_operations.h"
#include "runtime/direct_exchange.h"
#include "runtime/explanation.h"
#include "runtime/links.h"
#include "runtime/message_exchange.h"
#include "runtime/remote_links.h"
#include "runtime/scheduled_operations.h"
#include "runtime/small_exchange.h"
#include "runtime/staged_exchange.h"
#include "runtime/started_operations.h"

namespace gimbal {
namespace {

ReduceFunction reduce_function(const Call& call) {
  return reduces(call.collective) ? find_reduce(call.dtype, call.op) : nullptr;
}

Call plain_call(Collective collective, size_t bytes, DType dtype) {
  Call call;
  call.collective = collective;
  call.dtype = dtype;
  call.count = bytes / dtype_size(dtype);
  return call;
}

}  // namespace

Communicator::Communicator(Settings settings, Log log)
    : settings_(std::move(settings)),
      log_(std::move(log)),
      nodes_(NodeShape::uniform(1, settings_.size)),
      allocations_(0),
      spreader_(0),
      waits_(settings_.size),
      straggler_watch_(settings_.size, settings_.straggler_factor) {
  if (!settings_.metrics_file.empty()) {
    metrics_ = std::make_unique<MetricsFile>(expand_path(settings_.metrics_file), settings_.metrics_period_ms);
  }
}

Communicator::~Communicator() { close(); }

void Communicator::close() {
  // A forked child shares the parent's words and has none of its threads: it must change nothing there, and join nothing.
  if (fork_guard_.in_child()) {
    static_cast<void>(started_.release());
    static_cast<void>(device_.release());
    return;
  }
  started_.reset();
  if (metrics_ != nullptr && !closed_) write_metrics();
  closed_ = true;
  if (memory_ != nullptr) control(rank()).departed.store(1, std::memory_order_release);
  device_.reset();  // peers know by now: streams of theirs that wait for this rank go on, should the device want to be idle
  if (!spans_nodes()) return;
  // Peers that read slowly are not waited for longer than a user who ends a communicator would like.
  constexpr int64_t kDrainMs = 2000;
  if (status().ok()) remote_links_->drain(Deadline::after_ms(kDrainMs));
  news_->tell_departure();
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
  if (call.on_device) return device_operations(call.device).run(call);
  if (is_message(call.collective)) return run_message(call);
  return run_collective(call);
}

Result<std::shared_ptr<Request>> Communicator::start(const Call& call) {
  if (!call.on_device) return started().start(call);
  if (size() > 1) return device_operations(call.device).start(call);
  ASSIGN_OR_RETURN(const std::shared_ptr<Request> request, started().start(call));
  ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::set(*linked_cuda(), call.device));
  RETURN_IF_ERROR(linked_cuda()->synchronize(call.stream));
  return request;
}

DeviceOperations& Communicator::device_operations(int device) {
  if (device_ == nullptr) device_ = std::make_unique<DeviceOperations>(*this, *linked_cuda(), device);
  return *device_;
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
  Status status;
  uint64_t record = 0;
  if (choice_.is_small(call)) {
    SmallExchange operation(*context_, call, signature);
    operation.publish();  // the peers wait for it, and not for the flight recorder
    record = recorder_.begin(signature);
    status = drive(operation, signature);
  } else {
    record = recorder_.begin(signature);
    Result<std::unique_ptr<Operation>> operation = make_operation(call, signature);
    status = operation.ok() ? drive(**operation, signature) : fail(operation.status(), &signature);
  }
  recorder_.end(record, status.code(), waited_ || !status.ok());
  if (status.ok()) [[likely]] {
    count_operation(call.payload_bytes(size()));
  } else {
    count_error();
  }
  if (metrics_ != nullptr) [[unlikely]]
    look_at_metrics();
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
    ASSIGN_OR_RETURN(Endpoint* const endpoint, message_links_->endpoint(call.root));
    return std::unique_ptr<Operation>(new MessageExchange(call, rank(), *endpoint));
  }
  if (spans_nodes()) {
    const bool without_data = call.collective == Collective::kBarrier || (call.count == 0 && call.recv_counts == nullptr);
    return without_data ? scheduled_->make_synchronisation(signature)
                        : scheduled_->make(call, signature, choice_.algorithm(call));
  }
  const ReduceFunction reduce = reduce_function(call);
  if (choice_.is_small(call)) return std::unique_ptr<Operation>(new SmallExchange(*context_, call, signature));
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
  // Peers with registered buffers look for those of this rank. Weights stand on the boards too, where a rank that waits long
  // would otherwise put a 1 (look_around).
  if (!allocations_.empty() || call.weighted) announce(control(rank()), signature, call.weight, 0, 0);
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
  Waiter waiter = make_waiter(policy, Waiting::kCaller);
  const Driven driven = {.collectives = signature.sequence != 0, .messages = signature.sequence == 0};
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
    prepare_sleep(Waiting::kCaller, driven);
    const bool spun_so_far = waiter.only_spun();
    const Waiter::Pause pause = waiter.pause();
    if (spun_so_far && !waiter.only_spun() && !oversubscribed_) spreader_.step_aside(*memory_);
    if (pause >= Waiter::Pause::kArmed) RETURN_IF_ERROR(look_around(operation, signature, clock));
  }
  adaptive_policy_.ended(policy, waiter.only_spun());
  longest.end();
  const uint64_t now = ticks();
  waits_.add(longest.rank(), now - began);
  if (const std::optional<Straggler> straggler = straggler_watch_.add(longest.rank(), now - began, now)) report(*straggler);
  return {};
}

Waiter Communicator::make_waiter(const WaitPolicy& policy, Waiting waiting) const {
  return {policy, memory_->lot(), memory_->doorbells()[static_cast<size_t>(context_->rank)],
          sleepers_[static_cast<size_t>(waiting)].get()};
}

void Communicator::prepare_sleep(Waiting waiting, Driven driven) const {
  if (!spans_nodes()) return;
  PollSleeper& sleeper = *sleepers_[static_cast<size_t>(waiting)];
  constexpr uint32_t kNews = 1;
  constexpr uint32_t kCollectives = 2;
  constexpr uint32_t kMessages = 4;
  sleeper.select(kNews | (driven.collectives ? kCollectives : 0) | (driven.messages ? kMessages : 0));
  const bool nothing_known =
      (!driven.collectives || collective_links_->may_sleep()) && (!driven.messages || message_links_->may_sleep());
  if (!nothing_known) sleeper.skip_sleep();
}

void Communicator::ring_self() const {
  if (memory_ != nullptr) memory_->ring_rank(context_->rank);
}

Way Communicator::way(Collective collective, size_t bytes, DType dtype) const {
  return choice_.way(plain_call(collective, bytes, dtype), size());
}

std::string Communicator::explain(Collective collective, size_t bytes, DType dtype) {
  if (size() == 1) return "one rank: a copy inside this process";
  const Call call = plain_call(collective, bytes, dtype);
  const std::string links = remote_links_ == nullptr ? "" : "; between nodes " + remote_links_->describe();
  if (!estimates_) {
    Result<Tuner> tuner = make_tuner(*machine_, size(), nodes_.nodes(), cpus_);
    if (!tuner.ok()) return choice_.explain(call, size()) + "; no prediction: " + tuner.status().message() + links;
    estimates_ = std::move(tuner).value();
  }
  return to_text(explain_call(choice_, *estimates_, call)) + links;
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
  if (call.normalize && call.weight == 0) {
    return {Code::kInvalidArgument, "the weights of all ranks sum to 0: there is no weighted mean"};
  }
  // Over before anyone could look: only that it was is worth recording.
  recorder_.end(recorder_.begin(make_signature(call, next_sequence())), Code::kOk, false);
  count_operation(call.payload_bytes(1));
  if (call.on_device) return run_alone(call, *linked_cuda());
  run_alone(call);
  return {};
}

}  // namespace gimbal
