#include "runtime/cuda/device_operations.h"

#include <algorithm>
#include <string>

#include "runtime/communicator.h"
#include "runtime/cuda/staged_call.h"

namespace gimbal {

DeviceOperations::DeviceOperations(Communicator& communicator, Cuda& cuda, int device)
    : communicator_(communicator), cuda_(cuda), device_(device), lanes_(cuda, [&communicator] { communicator.ring_self(); }) {}

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
  RETURN_IF_ERROR(check_call(call));
  const StagingPlan plan(call, communicator_.rank(), communicator_.size());
  Result<std::shared_ptr<StagingLane>> lane = lanes_.take(std::min(plan.pieces(), StagingPlan::kMostSlots), plan.slot_bytes());
  if (!lane.ok()) return communicator_.fail(lane.status(), nullptr);
  return std::unique_ptr<EnqueuedCall>(new StagedCall(communicator_, cuda_, call, plan, std::move(lane).value(), awaited));
}

Status DeviceOperations::check_call(const Call& call) {
  if (call.device != device_) {
    return {Code::kInvalidUsage, "the buffers are memory of " + cuda_.describe_device(call.device) + ", but communicator \"" +
                                     communicator_.name() + "\" has worked on " + cuda_.describe_device(device_) +
                                     ": use another communicator for another device"};
  }
  ASSIGN_OR_RETURN(const bool capturing, cuda_.is_capturing(call.stream));
  if (!capturing) return {};
  return {Code::kInvalidUsage,
          std::string(collective_name(call.collective)) + " of " + std::to_string(call.payload_bytes(communicator_.size())) +
              " bytes goes by way of the host, which a CUDA graph cannot replay: call it outside the capture"};
}

}  // namespace gimbal
