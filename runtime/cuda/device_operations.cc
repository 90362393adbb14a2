#include "runtime/cuda/device_operations.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "base/process_registry.h"
#include "runtime/communicator.h"
#include "runtime/cuda/staged_call.h"

namespace gimbal {
namespace {

// Of communicators whose last kernel is behind something that does not end: it may still want its memory.
struct AbandonedSetups {
  std::mutex mutex;
  std::vector<std::pair<std::unique_ptr<NativeSetup>, std::unique_ptr<DevicePlans>>> setups;  // guarded by mutex
};

void abandon(std::unique_ptr<NativeSetup> setup, std::unique_ptr<DevicePlans> plans) {
  auto& abandoned = ProcessRegistry::instance().permanent<AbandonedSetups>("cuda-abandoned-setups");
  const std::lock_guard<std::mutex> lock(abandoned.mutex);
  abandoned.setups.emplace_back(std::move(setup), std::move(plans));
}

}  // namespace

// A communicator's first collective on device memory: the ranks set themselves up, a step at a time, so that a thread that has
// several of them in a group does not wait with one for another.
class DeviceOperations::FirstCall final : public EnqueuedCall {
 public:
  FirstCall(DeviceOperations& operations, const Call& call, bool awaited)
      : operations_(operations), call_(call), awaited_(awaited) {}

  Status advance() override {
    if (!operations_.setup_->is_done()) return operations_.setup_->advance();
    if (ready_ == nullptr) {
      ASSIGN_OR_RETURN(ready_, operations_.begin_ready(call_, awaited_));
    }
    return ready_->advance();
  }
  [[nodiscard]] bool is_enqueued() const override { return ready_ != nullptr && ready_->is_enqueued(); }
  [[nodiscard]] std::shared_ptr<Request> request() const override { return ready_->request(); }

 private:
  DeviceOperations& operations_;
  const Call& call_;
  const bool awaited_;
  std::unique_ptr<EnqueuedCall> ready_;
};

DeviceOperations::DeviceOperations(Communicator& communicator, Cuda& cuda, int device)
    : communicator_(communicator),
      cuda_(cuda),
      device_(device),
      lanes_(cuda, [&communicator] { communicator.ring_self(); }),
      events_(std::make_shared<EventPool>(cuda)),
      setup_(std::make_unique<NativeSetup>(communicator, cuda, device)),
      plans_(std::make_unique<DevicePlans>(cuda, *setup_)) {
  communicator_.watch_device(setup_.get());
}

DeviceOperations::~DeviceOperations() {
  communicator_.watch_device(nullptr);
  setup_->abort();
  constexpr int64_t kPatienceMs = 5000;
  const Deadline patience = Deadline::after_ms(kPatienceMs);
  while (last_kernel_.event != nullptr && !patience.passed()) {
    const Result<bool> ended = cuda_.has_happened(*last_kernel_.event);
    if (!ended.ok() || *ended) return;
    sched_yield();
  }
  if (last_kernel_.event != nullptr) abandon(std::move(setup_), std::move(plans_));
}

Status DeviceOperations::run(const Call& call) { return enqueue(call, false).status(); }

Result<std::shared_ptr<Request>> DeviceOperations::start(const Call& call) {
  ASSIGN_OR_RETURN(const std::unique_ptr<EnqueuedCall> enqueued, enqueue(call, true));
  return enqueued->request();
}

Result<std::unique_ptr<EnqueuedCall>> DeviceOperations::enqueue(const Call& call, bool awaited) {
  ASSIGN_OR_RETURN(const CurrentDevice current, use_device());
  ASSIGN_OR_RETURN(std::unique_ptr<EnqueuedCall> enqueued, begin(call, awaited));
  while (!enqueued->is_enqueued()) {
    if (const Status status = enqueued->advance(); !status.ok()) return communicator_.fail(status, nullptr);
  }
  return enqueued;
}

Result<std::unique_ptr<EnqueuedCall>> DeviceOperations::begin(const Call& call, bool awaited) {
  RETURN_IF_ERROR(check_device(call));
  if (const Status report = setup_->report(); !report.ok()) return communicator_.fail(report, nullptr);
  // Messages are between two ranks only.
  if (setup_->is_done() || is_message(call.collective)) return begin_ready(call, awaited);
  ASSIGN_OR_RETURN(const bool capturing, cuda_.is_capturing(call.stream));
  if (capturing) {
    return refuse_capture(call,
                          "is the communicator's first on device memory, which takes memory and meets the peers: make "
                          "one call before the capture");
  }
  if (!setup_->has_begun()) {
    if (const Status status = setup_->begin(); !status.ok()) return communicator_.fail(status, nullptr);
  }
  return std::unique_ptr<EnqueuedCall>(new FirstCall(*this, call, awaited));
}

Result<std::unique_ptr<EnqueuedCall>> DeviceOperations::begin_ready(const Call& call, bool awaited) {
  if (setup_->is_native() && NativeCall::can_serve(call)) {
    return std::unique_ptr<EnqueuedCall>(new NativeCall(communicator_, cuda_, *setup_, events_, last_kernel_, call));
  }
  ASSIGN_OR_RETURN(const bool capturing, cuda_.is_capturing(call.stream));
  if (setup_->is_native()) {
    if (const auto algorithm = plans_->algorithm_for(call)) return begin_scheduled(call, *algorithm, capturing);
  }
  if (capturing) {
    return refuse_capture(call, "goes by way of the host, which a CUDA graph cannot replay: call it outside the capture");
  }
  const StagingPlan plan(call, communicator_.rank(), communicator_.size());
  Result<std::shared_ptr<StagingLane>> lane = lanes_.take(std::min(plan.pieces(), StagingPlan::kMostSlots), plan.slot_bytes());
  if (!lane.ok()) return communicator_.fail(lane.status(), nullptr);
  return std::unique_ptr<EnqueuedCall>(new StagedCall(communicator_, cuda_, call, plan, std::move(lane).value(), awaited));
}

Result<std::unique_ptr<EnqueuedCall>> DeviceOperations::begin_scheduled(const Call& call, std::string_view algorithm,
                                                                        bool capturing) {
  const DevicePlan* plan = plans_->find(call, algorithm);
  if (plan == nullptr) {
    if (capturing) {
      return refuse_capture(call, "needs memory for its plan, which a capture cannot take: make the same call once before it");
    }
    Result<const DevicePlan*> made = plans_->make(call, algorithm);
    if (!made.ok()) return communicator_.fail(made.status(), nullptr);
    plan = *made;
  }
  return std::unique_ptr<EnqueuedCall>(
      new ScheduledCall(communicator_, cuda_, *setup_, events_, last_kernel_, call, *plan, plans_->scratch()));
}

Status DeviceOperations::check_device(const Call& call) {
  if (call.device == device_) return {};
  return {Code::kInvalidUsage, "the buffers are memory of " + cuda_.describe_device(call.device) + ", but communicator \"" +
                                   communicator_.name() + "\" has worked on " + cuda_.describe_device(device_) +
                                   ": use another communicator for another device"};
}

Status DeviceOperations::refuse_capture(const Call& call, const std::string& why) {
  return {Code::kInvalidUsage, std::string(collective_name(call.collective)) + " of " +
                                   std::to_string(call.payload_bytes(communicator_.size())) + " bytes " + why};
}

}  // namespace gimbal
