#include "runtime/started_operations.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "runtime/communicator.h"

namespace gimbal {
StartedOperations::StartedOperations(Communicator& communicator)
    : communicator_(communicator), threaded_(!communicator.settings().caller_progress) {}

StartedOperations::~StartedOperations() {
  stop_.store(true, std::memory_order_release);
  wake_thread();
  if (thread_.joinable()) thread_.join();
  take_inbox();
  complete_all(Status(Code::kAborted, "the communicator was destroyed before the operation completed"));
}

// Under the lock, so that the thread cannot miss it between its look and its sleep.
void StartedOperations::wake_thread() {
  { const std::lock_guard<std::mutex> lock(mutex_); }
  changed_.notify_all();
  communicator_.ring_self();
}

Result<std::shared_ptr<Request>> StartedOperations::start(const Call& call, const Prepare& prepare) {
  auto request = std::make_shared<Request>(call, static_cast<size_t>(communicator_.size()));
  if (communicator_.size() == 1) {
    request->status_ = communicator_.run(call);
    request->done_.store(true, std::memory_order_release);
    return request;
  }
  if (prepare != nullptr && !thread_.joinable()) {
    make_thread();
    if (!thread_.joinable()) return Status(Code::kSystem, "operations on device memory need a thread, and none could be made");
  }
  const bool message = is_message(call.collective);
  request->signature_ = make_signature(call, message ? 0 : communicator_.next_sequence());
  if (prepare != nullptr) request->prepared_ = prepare(request->call_.get(), request->signature_);
  pending_.fetch_add(1, std::memory_order_relaxed);
  if (!message) pending_collectives_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    inbox_.push_back(request);
  }
  // The first piece goes out now, so that peers need not wait for this rank's thread or wait. A large one would keep the caller
  // from its computation.
  constexpr size_t kAtOnceBytes = size_t{64} << 10;
  if (prepare == nullptr && (!threaded_ || call.bytes() <= kAtOnceBytes)) drive_once(Communicator::Waiting::kCaller, false);
  if (prepare != nullptr || (threaded_ && !request->done())) {
    if (!thread_.joinable()) make_thread();
    wake_thread();
  }
  return request;
}

// Without a thread (RLIMIT_NPROC, memory) operations move in start, wait and test, as with GIMBAL_PROGRESS_CALLER.
void StartedOperations::make_thread() {
  try {
    thread_ = std::thread([this] { run_thread(); });
  } catch (const std::system_error& error) {
    communicator_.log().warning(std::string("no progress thread: ") + error.what() +
                                "; started operations move only while the caller waits");
  }
}

void StartedOperations::wait(Request& request) { drive_until(nullptr, &request); }

bool StartedOperations::test(Request& request) {
  if (!thread_.joinable() && !request.done()) drive_once(Communicator::Waiting::kCaller, true);
  return request.done();
}

Status StartedOperations::wait_for_collectives() {
  if (pending_collectives_.load(std::memory_order_acquire) > 0) drive_until(&pending_collectives_, nullptr);
  return communicator_.check_usable();
}

// Until the counter is 0 or the request is done.
void StartedOperations::drive_until(const std::atomic<uint64_t>* counter, const Request* request) {
  const auto finished = [&] { return request != nullptr ? request->done() : counter->load(std::memory_order_acquire) == 0; };
  if (finished()) return;
  caller_drives_.store(true, std::memory_order_release);
  Waiter waiter = communicator_.make_waiter(communicator_.wait_policy(), Communicator::Waiting::kCaller);
  bool look_around_due = false;
  while (true) {
    const bool moved = drive_once(Communicator::Waiting::kCaller, std::exchange(look_around_due, false));
    if (finished()) break;
    if (moved) {
      waiter.reset();
    } else {
      look_around_due = waiter.pause() >= Waiter::Pause::kArmed;
    }
  }
  caller_drives_.store(false, std::memory_order_release);
  if (thread_.joinable() && !idle()) wake_thread();
}

bool StartedOperations::drive_once(Communicator::Waiting waiting, bool due) {
  const std::lock_guard<std::mutex> lock(drive_mutex_);
  take_inbox();
  const bool moved = step();
  if (!moved) communicator_.prepare_sleep(waiting, {.collectives = !collectives_.empty(), .messages = !messages_.empty()});
  if (!moved && due) look_around();
  if (moved && idle()) communicator_.write_metrics_if_due();
  return moved;
}

void StartedOperations::look_around() {
  Request* const first = oldest();
  if (first == nullptr || first->operation_ == nullptr) return;
  const Status status = communicator_.look_around(*first->operation_, first->signature_, first->clock_);
  if (!status.ok()) complete_all(status);
}

void StartedOperations::run_thread() {
  const auto may_drive = [this] { return !idle() && !caller_drives_.load(std::memory_order_acquire); };
  Waiter waiter = communicator_.make_waiter(communicator_.background_policy(), Communicator::Waiting::kBackground);
  bool look_around_due = false;
  while (!stop_.load(std::memory_order_acquire)) {
    if (!may_drive()) {
      waiter.reset();
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return stop_.load(std::memory_order_acquire) || may_drive(); });
      continue;
    }
    if (drive_once(Communicator::Waiting::kBackground, std::exchange(look_around_due, false))) {
      waiter.reset();
    } else {
      look_around_due = waiter.pause() >= Waiter::Pause::kArmed;
    }
  }
}

Request* StartedOperations::oldest() const {
  if (!collectives_.empty()) return collectives_.front().get();
  return messages_.empty() ? nullptr : messages_.front().get();
}

void StartedOperations::take_inbox() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::shared_ptr<Request>& request : inbox_) {
    (is_message(request->call_.get().collective) ? messages_ : collectives_).push_back(std::move(request));
  }
  inbox_.clear();
}

bool StartedOperations::step() {
  if (communicator_.faulted()) {
    complete_all(communicator_.adopt_fault());
    return false;
  }
  bool moved = false;
  if (!collectives_.empty() && advance(*collectives_.front(), moved)) collectives_.pop_front();
  step_messages(moved);
  return moved;
}

void StartedOperations::step_messages(bool& moved) {
  // A message may move when none before it goes the same way.
  const auto is_behind = [this](Queue::iterator at) {
    return std::any_of(messages_.begin(), at, [&at](const std::shared_ptr<Request>& earlier) {
      return earlier->call_.get().root == (*at)->call_.get().root &&
             earlier->call_.get().collective == (*at)->call_.get().collective;
    });
  };
  for (auto at = messages_.begin(); at != messages_.end();) {
    if (!is_behind(at) && advance(**at, moved)) {
      at = messages_.erase(at);
    } else {
      ++at;
    }
  }
}

bool StartedOperations::advance(Request& request, bool& moved) {
  if (request.operation_ == nullptr) {
    request.begun_ = true;
    request.record_ = communicator_.recorder().begin(request.signature_, FlightRecorder::Writer::kBackground);
    Result<std::unique_ptr<Operation>> operation = request.prepared_ != nullptr
                                                       ? std::move(request.prepared_)
                                                       : communicator_.make_operation(request.call_.get(), request.signature_);
    if (!operation.ok()) {
      complete(request, communicator_.fail(operation.status(), &request.signature_));
      return true;
    }
    request.operation_ = std::move(operation).value();
    moved = true;
  }
  Result<Progress> progress = request.operation_->progress();
  if (!progress.ok()) {
    complete(request, communicator_.fail(progress.status(), &request.signature_));
    return true;
  }
  if (*progress == Progress::kDone) {
    moved = true;
    communicator_.count_background_operation(request.call_.get().payload_bytes(communicator_.size()));
    complete(request, Status());
    return true;
  }
  if (request.operation_->moves() != request.moves_) {
    request.moves_ = request.operation_->moves();
    request.clock_ = {};
    moved = true;
  }
  return false;
}

void StartedOperations::complete(Request& request, Status status) {
  if (request.begun_) communicator_.recorder().end(request.record_, status.code());
  if (!status.ok()) communicator_.count_error();
  request.operation_.reset();
  request.prepared_.reset();
  request.status_ = std::move(status);
  const bool message = is_message(request.call_.get().collective);
  request.done_.store(true, std::memory_order_release);
  if (!message) pending_collectives_.fetch_sub(1, std::memory_order_release);
  pending_.fetch_sub(1, std::memory_order_release);
}

void StartedOperations::complete_all(const Status& status) {
  for (Queue* queue : {&collectives_, &messages_}) {
    for (const std::shared_ptr<Request>& request : *queue) complete(*request, status);
    queue->clear();
  }
}

}  // namespace gimbal
