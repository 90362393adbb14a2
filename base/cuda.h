// What Gimbal asks of CUDA, as an interface: whoever uses it needs neither CUDA's headers nor its libraries, and one build of
// the layers above serves a real device, a simulated one, and none.
//
// Handles are CUDA's own (cudaStream_t, cudaEvent_t). Functions that allocate or create act on the calling thread's current
// device, which CurrentDevice sets. Errors are DEVICE with the call, CUDA's name for what went wrong and a remedy where there
// is one; NO_MEMORY when the device has none left.
//
// Thread safety: any thread, any time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"

namespace gimbal {

using CudaStream = struct CudaStreamHandle*;  // nullptr: the legacy default stream of the current device
using CudaEvent = struct CudaEventHandle*;
using CudaGraph = struct CudaGraphHandle*;  // ready to be launched (cudaGraphExec_t)

enum class MemoryKind : uint8_t {
  kHost,     // ordinary: only the host reaches it
  kPinned,   // the host's, and devices reach it too
  kDevice,   // a device's
  kManaged,  // moves to whom reaches for it
};

struct PointerFacts {
  MemoryKind kind = MemoryKind::kHost;
  int device = -1;  // of device and managed memory
};

struct CudaIpcHandle {
  std::array<std::byte, 64> bytes = {};
};

class Cuda {
 public:
  Cuda() = default;
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;
  virtual ~Cuda() = default;

  // Whether devices can be used at all: a driver, as new as the runtime, and a visible device. UNSUPPORTED with the remedy.
  virtual Status check_usable() = 0;
  // Never fails and never initialises CUDA: what CUDA does not know is the host's.
  virtual PointerFacts look_at(const void* pointer) = 0;

  virtual Result<int> device_count() = 0;
  virtual Result<int> current_device() = 0;
  virtual Status set_current_device(int device) = 0;
  virtual std::string describe_device(int device) = 0;  // "device 0 (NVIDIA H200, 0000:1b:00.0)"
  virtual Result<std::string> bus_id(int device) = 0;   // equal in all processes of a host
  // Whether processes share the device at the same time (MPS), rather than taking turns.
  virtual bool is_shared_by_processes(int device) = 0;
  // Lets the current device reach the peer's memory. UNSUPPORTED when the machine does not.
  virtual Status enable_peer_access(int peer) = 0;

  virtual Result<void*> allocate(size_t bytes) = 0;
  virtual void free(void* pointer) = 0;
  virtual Result<void*> allocate_pinned(size_t bytes) = 0;  // reached by every device at the same address
  virtual void free_pinned(void* pointer) = 0;
  virtual Result<CudaIpcHandle> export_memory(void* allocation) = 0;
  virtual Result<void*> import_memory(const CudaIpcHandle& handle) = 0;  // of another process; on the current device
  virtual void close_imported(void* pointer) = 0;

  // Enqueue only.
  virtual Status copy(void* to, const void* from, size_t bytes, CudaStream stream) = 0;
  virtual Status set_bytes(void* to, int value, size_t bytes, CudaStream stream) = 0;
  // In its turn on the stream, by a thread of CUDA's that must not be held up and must not call CUDA.
  virtual Status call_host(void (*function)(void*), void* argument, CudaStream stream) = 0;
  // The stream goes on when the word in pinned memory is at least `value` (in the order of 32-bit numbers that wrap). No
  // multiprocessor waits.
  virtual Status wait_for_word(uint32_t* word, uint32_t value, CudaStream stream) = 0;

  virtual Result<CudaStream> create_stream() = 0;  // not ordered with the legacy default stream
  virtual void destroy_stream(CudaStream stream) = 0;
  virtual Status synchronize(CudaStream stream) = 0;
  virtual Result<int> device_of(CudaStream stream) = 0;
  virtual Result<bool> is_capturing(CudaStream stream) = 0;
  // What this thread enqueues on the stream in between becomes a graph.
  virtual Status begin_capture(CudaStream stream) = 0;
  virtual Result<CudaGraph> end_capture(CudaStream stream) = 0;
  virtual Status launch(CudaGraph graph, CudaStream stream) = 0;
  virtual void destroy_graph(CudaGraph graph) = 0;

  virtual Result<CudaEvent> create_event(bool timed) = 0;
  virtual void destroy_event(CudaEvent event) = 0;
  virtual Status record(CudaEvent event, CudaStream stream) = 0;
  virtual Result<bool> has_happened(CudaEvent event) = 0;
  virtual Status wait_for(CudaEvent event) = 0;
  // What is enqueued on the stream from now on comes after what the event's record() came after.
  virtual Status order_behind(CudaEvent event, CudaStream stream) = 0;
  virtual Result<double> elapsed_us(CudaEvent begin, CudaEvent end) = 0;
};

// What this program was linked with; nullptr in a build without CUDA.
Cuda* linked_cuda();

// Makes a device current for the length of a scope.
class CurrentDevice {
 public:
  static Result<CurrentDevice> set(Cuda& cuda, int device) {
    ASSIGN_OR_RETURN(const int before, cuda.current_device());
    if (before != device) RETURN_IF_ERROR(cuda.set_current_device(device));
    return CurrentDevice(cuda, before, before != device);
  }
  CurrentDevice(CurrentDevice&& other) noexcept
      : cuda_(other.cuda_), before_(other.before_), changed_(std::exchange(other.changed_, false)) {}
  CurrentDevice& operator=(CurrentDevice&&) = delete;
  // The device was current before, so making it current again does not fail.
  ~CurrentDevice() {
    if (changed_) static_cast<void>(cuda_.set_current_device(before_));
  }

 private:
  CurrentDevice(Cuda& cuda, int before, bool changed) : cuda_(cuda), before_(before), changed_(changed) {}

  Cuda& cuda_;
  int before_;
  bool changed_;
};

}  // namespace gimbal
