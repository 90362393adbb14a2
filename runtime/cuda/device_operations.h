// A communicator's operations on device memory: they enqueue on the caller's stream and return. Where the ranks reach each
// other's memory (NativeSetup) a collective is one kernel (NativeCall, ScheduledCall); everything else goes by way of the host
// (StagedCall).
//
// The communicator works on one device, that of its first call on device memory. Used by the communicator's caller.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/cuda.h"
#include "runtime/cuda/enqueued_call.h"
#include "runtime/cuda/kernel_call.h"
#include "runtime/cuda/native_setup.h"
#include "runtime/cuda/scheduled_call.h"
#include "runtime/cuda/staging_lanes.h"

namespace gimbal {

class DeviceOperations {
 public:
  DeviceOperations(Communicator& communicator, Cuda& cuda, int device);
  // Waits for this rank's kernels, which return since the communicator ends.
  ~DeviceOperations();
  DeviceOperations(const DeviceOperations&) = delete;
  DeviceOperations& operator=(const DeviceOperations&) = delete;

  // Whole calls. A request is done when the stream has passed the call.
  Status run(const Call& call);
  Result<std::shared_ptr<Request>> start(const Call& call);

  // For groups, with the device current. The call must outlive what is returned, and its first advance() is still to come.
  // Errors of advance() go to Communicator::fail.
  Result<std::unique_ptr<EnqueuedCall>> begin(const Call& call, bool awaited);
  // Makes the communicator's device current.
  Result<CurrentDevice> use_device() { return CurrentDevice::set(cuda_, device_); }

 private:
  class FirstCall;

  Result<std::unique_ptr<EnqueuedCall>> enqueue(const Call& call, bool awaited);
  // With everything set up.
  Result<std::unique_ptr<EnqueuedCall>> begin_ready(const Call& call, bool awaited);
  Result<std::unique_ptr<EnqueuedCall>> begin_scheduled(const Call& call, std::string_view algorithm, bool capturing);
  Status check_device(const Call& call);
  Status refuse_capture(const Call& call, const std::string& why);

  Communicator& communicator_;
  Cuda& cuda_;
  const int device_;
  StagingLanes lanes_;
  std::shared_ptr<EventPool> events_;
  std::unique_ptr<NativeSetup> setup_;
  std::unique_ptr<DevicePlans> plans_;
  LastKernel last_kernel_;
};

}  // namespace gimbal
