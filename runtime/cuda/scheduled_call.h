// A collective on device memory by the interpreter kernel: the schedule that the host's executor would run, over links in
// device memory, one block for each channel.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string_view>

#include "base/cuda.h"
#include "runtime/cuda/kernel_call.h"
#include "runtime/plan.h"
#include "runtime/plan_cache.h"

namespace gimbal {

// A plan and its bytes on the device.
struct DevicePlan {
  PlanKey key;
  Plan plan;  // its steps are on the device only
  const PlanStep* steps = nullptr;
  const device::PlanRun* runs = nullptr;
};

// The plans and the scratch memory of one communicator's interpreters. What was once given out stays until the end: captured
// graphs refer to it.
class DevicePlans {
 public:
  DevicePlans(Cuda& cuda, const NativeSetup& setup) : cuda_(cuda), setup_(setup) {}
  ~DevicePlans();
  DevicePlans(const DevicePlans&) = delete;
  DevicePlans& operator=(const DevicePlans&) = delete;

  // The algorithm for a collective by schedule; nothing when it goes by way of the host: weighted sums, the _v forms, what has
  // no data, and everything where a device has no room for a block of each channel.
  [[nodiscard]] std::optional<std::string_view> algorithm_for(const Call& call) const;

  // Null when it is not on the device yet.
  const DevicePlan* find(const Call& call, std::string_view algorithm);
  // Puts it there, and makes scratch large enough. Waits for the copy, not for any stream of the caller's.
  Result<const DevicePlan*> make(const Call& call, std::string_view algorithm);
  [[nodiscard]] std::byte* scratch() const { return scratch_; }

 private:
  [[nodiscard]] PlanKey key_of(const Call& call, std::string_view algorithm) const;
  [[nodiscard]] Result<Plan> build(const Call& call, const PlanKey& key) const;
  Result<std::byte*> allocate(size_t bytes);

  Cuda& cuda_;
  const NativeSetup& setup_;
  std::list<DevicePlan> plans_;
  std::list<void*> allocations_;
  std::byte* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
};

class ScheduledCall final : public KernelCall {
 public:
  // plan and scratch: of the communicator's DevicePlans.
  ScheduledCall(Communicator& communicator, Cuda& cuda, const NativeSetup& setup, const std::shared_ptr<EventPool>& events,
                LastKernel& last, const Call& call, const DevicePlan& plan, std::byte* scratch)
      : KernelCall(communicator, cuda, setup, events, last, call), plan_(plan), scratch_(scratch) {}

 private:
  Status launch() override;

  const DevicePlan& plan_;
  std::byte* const scratch_;
};

}  // namespace gimbal
