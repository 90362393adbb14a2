// A call on device memory as one kernel on the caller's stream; it and its peers' kernels find each other in the memory that
// NativeSetup has exchanged.
//
// Each is also a started operation that moves no bytes: it watches over the kernel, with the call's signature, place in the
// flight recorder and deadline, and has it return when the communicator fails. Captured into a graph a kernel has no such
// watch: it ends by its own deadline and reports itself.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/enqueued_call.h"
#include "runtime/cuda/native_setup.h"

namespace gimbal {

// Events to be used again. Thread safety: any thread.
class EventPool {
 public:
  explicit EventPool(Cuda& cuda) : cuda_(cuda) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  Result<CudaEvent> take();
  void give_back(CudaEvent event);

 private:
  Cuda& cuda_;
  std::mutex mutex_;
  std::vector<CudaEvent> free_;  // guarded by mutex_
};

// Kernels of one communicator run one after the other, whatever their streams: what the next one is ordered behind.
struct LastKernel {
  CudaStream stream = nullptr;
  std::shared_ptr<const CudaEvent> event;  // null: none yet
};

class KernelCall : public EnqueuedCall {
 public:
  // The call must outlive this.
  KernelCall(Communicator& communicator, Cuda& cuda, const NativeSetup& setup, const std::shared_ptr<EventPool>& events,
             LastKernel& last, const Call& call)
      : communicator_(communicator), cuda_(cuda), setup_(setup), events_(events), last_(last), call_(call) {}

  Status advance() override;
  [[nodiscard]] bool is_enqueued() const override { return is_enqueued_; }
  [[nodiscard]] std::shared_ptr<Request> request() const override { return request_; }

 protected:
  virtual Status launch() = 0;
  [[nodiscard]] const NativeSetup& setup() const { return setup_; }
  [[nodiscard]] const Call& call() const { return call_; }
  // Equal on all ranks when their calls are, and in every replay.
  [[nodiscard]] uint64_t tag() const;

 private:
  Status watch();

  Communicator& communicator_;
  Cuda& cuda_;
  const NativeSetup& setup_;
  const std::shared_ptr<EventPool> events_;
  LastKernel& last_;
  const Call& call_;
  bool is_enqueued_ = false;
  std::shared_ptr<Request> request_;  // null in a capture
};

// An all-reduce of up to NativeSetup::kMostBytes, one-shot or two-shot.
class NativeCall final : public KernelCall {
 public:
  using KernelCall::KernelCall;
  static bool can_serve(const Call& call);

 private:
  Status launch() override;
};

}  // namespace gimbal
