// The Cuda interface by the CUDA runtime. Compiled against CUDA's headers for the library, and against those of the simulated
// device for the tests.
#include <cuda_runtime_api.h>

#include <cstring>
#include <mutex>
#include <optional>

#include "base/cuda.h"
#include "base/environment.h"
#include "kernels/cuda/driver_functions.h"

namespace gimbal {
namespace {

cudaStream_t native(CudaStream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t native(CudaEvent event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaGraphExec_t native(CudaGraph graph) { return reinterpret_cast<cudaGraphExec_t>(graph); }

std::string remedy(cudaError_t error) {
  switch (error) {
    case cudaErrorPeerAccessUnsupported:
      return "; the devices do not reach each other's memory: in a container pass the devices with --gpus and --ipc=host, on a "
             "virtual machine look at its IOMMU";
    case cudaErrorInvalidDevice:
      return "; CUDA_VISIBLE_DEVICES says which devices this process sees";
    default:
      return "";
  }
}

Status check(cudaError_t error, const std::string& call) {
  if (error == cudaSuccess) [[likely]]
    return {};
  // Or the caller's next look at it would find this one.
  static_cast<void>(cudaGetLastError());
  const Code code = error == cudaErrorMemoryAllocation ? Code::kNoMemory : Code::kDevice;
  return {code, call + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")" + remedy(error)};
}

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

Status no_device() {
  const std::optional<std::string> visible = read_environment("CUDA_VISIBLE_DEVICES");
  if (visible) {
    return {Code::kUnsupported,
            "CUDA_VISIBLE_DEVICES=" + *visible +
                " names no device of this machine: unset it, or give indices or UUIDs that nvidia-smi -L lists"};
  }
  return {Code::kUnsupported,
          "the CUDA driver shows no device: look at nvidia-smi; an empty CUDA_VISIBLE_DEVICES hides all, and a container needs "
          "--gpus"};
}

Status find_out_whether_usable() {
  int driver = 0;
  int runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return {Code::kUnsupported,
            "no CUDA driver: libcuda.so.1 is not there or does not load; install NVIDIA's driver, or pass the devices to the "
            "container"};
  }
  RETURN_IF_ERROR(check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"));
  // Within one major version every driver serves every runtime.
  if (driver / 1000 < runtime / 1000) {
    return {Code::kUnsupported, "the CUDA driver is for CUDA " + version_text(driver) + ", this build's runtime is " +
                                    version_text(runtime) + ": update the driver, or build with the toolkit of CUDA " +
                                    std::to_string(driver / 1000)};
  }
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaErrorNoDevice || (error == cudaSuccess && devices == 0)) {
    static_cast<void>(cudaGetLastError());
    return no_device();
  }
  if (error == cudaSuccess) return {};
  const Status status = check(error, "cudaGetDeviceCount");
  return {Code::kUnsupported, status.message()};
}

class CudaRuntime final : public Cuda {
 public:
  Status check_usable() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!usable_) usable_ = find_out_whether_usable();
    return *usable_;
  }
  PointerFacts look_at(const void* pointer) override { return cuda_driver::look_at(pointer); }

  Result<int> device_count() override {
    int count = 0;
    RETURN_IF_ERROR(check(cudaGetDeviceCount(&count), "cudaGetDeviceCount"));
    return count;
  }
  Result<int> current_device() override {
    int device = 0;
    RETURN_IF_ERROR(check(cudaGetDevice(&device), "cudaGetDevice"));
    return device;
  }
  Status set_current_device(int device) override {
    return check(cudaSetDevice(device), "cudaSetDevice(" + std::to_string(device) + ")");
  }
  std::string describe_device(int device) override {
    cudaDeviceProp properties = {};
    std::string text = "device " + std::to_string(device);
    if (!check(cudaGetDeviceProperties(&properties, device), "").ok()) return text;
    const Result<std::string> bus = bus_id(device);
    return text + " (" + properties.name + (bus.ok() ? ", " + *bus : "") + ")";
  }
  Result<std::string> bus_id(int device) override {
    char text[32] = {};
    RETURN_IF_ERROR(check(cudaDeviceGetPCIBusId(text, sizeof(text), device), "cudaDeviceGetPCIBusId"));
    return std::string(text);
  }
  bool is_shared_by_processes(int device) override { return cuda_driver::has_mps(device); }
  Status enable_peer_access(int peer) override {
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
      static_cast<void>(cudaGetLastError());
      return {};
    }
    return check(error, "cudaDeviceEnablePeerAccess to " + describe_device(peer));
  }

  Result<void*> allocate(size_t bytes) override {
    void* pointer = nullptr;
    RETURN_IF_ERROR(check(cudaMalloc(&pointer, bytes), "cudaMalloc of " + std::to_string(bytes) + " bytes"));
    return pointer;
  }
  // Errors of calls before surface in these; those have been reported where they belong.
  void free(void* pointer) override { static_cast<void>(check(cudaFree(pointer), "cudaFree")); }
  Result<void*> allocate_pinned(size_t bytes) override {
    void* pointer = nullptr;
    RETURN_IF_ERROR(check(cudaHostAlloc(&pointer, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
                          "cudaHostAlloc of " + std::to_string(bytes) + " bytes"));
    return pointer;
  }
  void free_pinned(void* pointer) override { static_cast<void>(check(cudaFreeHost(pointer), "cudaFreeHost")); }
  Result<CudaIpcHandle> export_memory(void* allocation) override {
    cudaIpcMemHandle_t handle = {};
    RETURN_IF_ERROR(check(cudaIpcGetMemHandle(&handle, allocation), "cudaIpcGetMemHandle"));
    CudaIpcHandle exported;
    static_assert(sizeof(handle) == sizeof(exported.bytes));
    std::memcpy(exported.bytes.data(), &handle, sizeof(handle));
    return exported;
  }
  Result<void*> import_memory(const CudaIpcHandle& exported) override {
    cudaIpcMemHandle_t handle = {};
    std::memcpy(&handle, exported.bytes.data(), sizeof(handle));
    void* pointer = nullptr;
    RETURN_IF_ERROR(check(cudaIpcOpenMemHandle(&pointer, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle"));
    return pointer;
  }
  void close_imported(void* pointer) override { static_cast<void>(check(cudaIpcCloseMemHandle(pointer), "close")); }

  Status copy(void* to, const void* from, size_t bytes, CudaStream stream) override {
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)), "cudaMemcpyAsync");
  }
  Status set_bytes(void* to, int value, size_t bytes, CudaStream stream) override {
    return check(cudaMemsetAsync(to, value, bytes, native(stream)), "cudaMemsetAsync");
  }
  Status call_host(void (*function)(void*), void* argument, CudaStream stream) override {
    return check(cudaLaunchHostFunc(native(stream), function, argument), "cudaLaunchHostFunc");
  }
  Status wait_for_word(uint32_t* word, uint32_t value, CudaStream stream) override {
    return cuda_driver::wait_for_word(word, value, native(stream));
  }

  Result<CudaStream> create_stream() override {
    cudaStream_t stream = nullptr;
    RETURN_IF_ERROR(check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"));
    return reinterpret_cast<CudaStream>(stream);
  }
  void destroy_stream(CudaStream stream) override { static_cast<void>(check(cudaStreamDestroy(native(stream)), "destroy")); }
  Status synchronize(CudaStream stream) override {
    return check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
  }
  Result<int> device_of(CudaStream stream) override {
    int device = 0;
    RETURN_IF_ERROR(check(cudaStreamGetDevice(native(stream), &device), "cudaStreamGetDevice"));
    return device;
  }
  Result<bool> is_capturing(CudaStream stream) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    RETURN_IF_ERROR(check(cudaStreamIsCapturing(native(stream), &status), "cudaStreamIsCapturing"));
    return status != cudaStreamCaptureStatusNone;
  }
  Status begin_capture(CudaStream stream) override {
    return check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  Result<CudaGraph> end_capture(CudaStream stream) override {
    cudaGraph_t graph = nullptr;
    RETURN_IF_ERROR(check(cudaStreamEndCapture(native(stream), &graph), "cudaStreamEndCapture"));
    cudaGraphExec_t ready = nullptr;
    const Status status = check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
    static_cast<void>(cudaGraphDestroy(graph));
    RETURN_IF_ERROR(status);
    return reinterpret_cast<CudaGraph>(ready);
  }
  Status launch(CudaGraph graph, CudaStream stream) override {
    return check(cudaGraphLaunch(native(graph), native(stream)), "cudaGraphLaunch");
  }
  void destroy_graph(CudaGraph graph) override { static_cast<void>(check(cudaGraphExecDestroy(native(graph)), "destroy")); }

  Result<CudaEvent> create_event(bool timed) override {
    cudaEvent_t event = nullptr;
    RETURN_IF_ERROR(
        check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming), "cudaEventCreateWithFlags"));
    return reinterpret_cast<CudaEvent>(event);
  }
  void destroy_event(CudaEvent event) override { static_cast<void>(check(cudaEventDestroy(native(event)), "destroy")); }
  Status record(CudaEvent event, CudaStream stream) override {
    return check(cudaEventRecord(native(event), native(stream)), "cudaEventRecord");
  }
  Result<bool> has_happened(CudaEvent event) override {
    const cudaError_t error = cudaEventQuery(native(event));
    if (error == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    RETURN_IF_ERROR(check(error, "cudaEventQuery"));
    return true;
  }
  Status wait_for(CudaEvent event) override { return check(cudaEventSynchronize(native(event)), "cudaEventSynchronize"); }
  Status order_behind(CudaEvent event, CudaStream stream) override {
    return check(cudaStreamWaitEvent(native(stream), native(event), 0), "cudaStreamWaitEvent");
  }
  Result<double> elapsed_us(CudaEvent begin, CudaEvent end) override {
    float milliseconds = 0;
    RETURN_IF_ERROR(check(cudaEventElapsedTime(&milliseconds, native(begin), native(end)), "cudaEventElapsedTime"));
    return static_cast<double>(milliseconds) * 1e3;
  }

 private:
  std::mutex mutex_;
  std::optional<Status> usable_;  // guarded by mutex_
};

}  // namespace

Cuda* linked_cuda() {
  // Never destroyed: a communicator may outlive the static destructors of its program.
  static Cuda* const kCuda = new CudaRuntime();
  return kCuda;
}

}  // namespace gimbal
