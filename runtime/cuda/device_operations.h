// A communicator's operations on device memory: they enqueue on the caller's stream and return.
//
// The communicator works on one device, that of its first call on device memory. Used by the communicator's caller.
#pragma once

#include <memory>

#include "base/cuda.h"
#include "runtime/cuda/enqueued_call.h"
#include "runtime/cuda/staging_lanes.h"

namespace gimbal {

class DeviceOperations {
 public:
  DeviceOperations(Communicator& communicator, Cuda& cuda, int device);

  // Whole calls. A request is done when the stream has passed the call.
  Status run(const Call& call);
  Result<std::shared_ptr<Request>> start(const Call& call);

  // For groups. The call must outlive what is returned, and its first advance() is still to come. Errors of advance() go to
  // Communicator::fail.
  Result<std::unique_ptr<EnqueuedCall>> begin(const Call& call, bool awaited);
  // Makes the communicator's device current.
  Result<CurrentDevice> use_device() { return CurrentDevice::set(cuda_, device_); }

  [[nodiscard]] size_t pinned_bytes() const { return lanes_.pinned_bytes(); }

 private:
  Result<std::unique_ptr<EnqueuedCall>> enqueue(const Call& call, bool awaited);
  Status check_call(const Call& call);

  Communicator& communicator_;
  Cuda& cuda_;
  const int device_;
  StagingLanes lanes_;
};

}  // namespace gimbal
