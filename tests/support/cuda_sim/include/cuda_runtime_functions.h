// The functions of the simulated runtime. Included by cuda_runtime.h only.
#pragma once

CUDA_SIM_API cudaError_t cudaGetLastError();
CUDA_SIM_API cudaError_t cudaPeekAtLastError();
CUDA_SIM_API const char* cudaGetErrorName(cudaError_t error);
CUDA_SIM_API const char* cudaGetErrorString(cudaError_t error);

CUDA_SIM_API cudaError_t cudaDriverGetVersion(int* version);
CUDA_SIM_API cudaError_t cudaRuntimeGetVersion(int* version);
CUDA_SIM_API cudaError_t cudaGetDeviceCount(int* count);
CUDA_SIM_API cudaError_t cudaGetDevice(int* device);
CUDA_SIM_API cudaError_t cudaSetDevice(int device);
CUDA_SIM_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
CUDA_SIM_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
CUDA_SIM_API cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device);
CUDA_SIM_API cudaError_t cudaDeviceSynchronize();
CUDA_SIM_API cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

CUDA_SIM_API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
CUDA_SIM_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
CUDA_SIM_API cudaError_t cudaDeviceDisablePeerAccess(int peer);
CUDA_SIM_API cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int source, int destination);

CUDA_SIM_API cudaError_t cudaMalloc(void** pointer, size_t bytes);
CUDA_SIM_API cudaError_t cudaFree(void* pointer);
CUDA_SIM_API cudaError_t cudaMallocHost(void** pointer, size_t bytes);
CUDA_SIM_API cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags);
CUDA_SIM_API cudaError_t cudaFreeHost(void* pointer);
CUDA_SIM_API cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags);
CUDA_SIM_API cudaError_t cudaHostUnregister(void* pointer);
CUDA_SIM_API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags);
CUDA_SIM_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);
CUDA_SIM_API cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
CUDA_SIM_API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                         cudaStream_t stream = nullptr);
CUDA_SIM_API cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                             cudaStream_t stream = nullptr);
CUDA_SIM_API cudaError_t cudaMemset(void* to, int value, size_t bytes);
CUDA_SIM_API cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream = nullptr);

CUDA_SIM_API cudaError_t cudaStreamCreate(cudaStream_t* stream);
CUDA_SIM_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
CUDA_SIM_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
CUDA_SIM_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
CUDA_SIM_API cudaError_t cudaStreamDestroy(cudaStream_t stream);
CUDA_SIM_API cudaError_t cudaStreamSynchronize(cudaStream_t stream);
CUDA_SIM_API cudaError_t cudaStreamQuery(cudaStream_t stream);
CUDA_SIM_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
CUDA_SIM_API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device);
CUDA_SIM_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags);
CUDA_SIM_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument);

CUDA_SIM_API cudaError_t cudaEventCreate(cudaEvent_t* event);
CUDA_SIM_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
CUDA_SIM_API cudaError_t cudaEventDestroy(cudaEvent_t event);
CUDA_SIM_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
CUDA_SIM_API cudaError_t cudaEventQuery(cudaEvent_t event);
CUDA_SIM_API cudaError_t cudaEventSynchronize(cudaEvent_t event);
CUDA_SIM_API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

CUDA_SIM_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer);
CUDA_SIM_API cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags);
CUDA_SIM_API cudaError_t cudaIpcCloseMemHandle(void* pointer);
CUDA_SIM_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event);
CUDA_SIM_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle);

CUDA_SIM_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
CUDA_SIM_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
CUDA_SIM_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
// Answers status and id only.
CUDA_SIM_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                  unsigned long long* id = nullptr, cudaGraph_t* graph = nullptr,
                                                  const cudaGraphNode_t** dependencies = nullptr,
                                                  const cudaGraphEdgeData** edges = nullptr, size_t* count = nullptr);
CUDA_SIM_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
CUDA_SIM_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags = 0);
CUDA_SIM_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
CUDA_SIM_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
CUDA_SIM_API cudaError_t cudaGraphDestroy(cudaGraph_t graph);

namespace cuda_sim {
CUDA_SIM_API cudaError_t launch(std::function<void()> body, dim3 grid, dim3 block, cudaStream_t stream);
CUDA_SIM_API cudaError_t blocks_per_multiprocessor(int* count, int threads);
}  // namespace cuda_sim

template <typename T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
template <typename T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(pointer), bytes);
}
template <typename T>
cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(pointer), bytes, flags);
}

// The real function takes any kernel by its address; this one sees its type, and so copies the arguments.
template <typename... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments, size_t = 0,
                             cudaStream_t stream = nullptr) {
  const auto copy = [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::tuple<std::remove_cv_t<Parameters>...>(*static_cast<std::remove_cv_t<Parameters>*>(arguments[kIndex])...);
  };
  auto values = copy(std::index_sequence_for<Parameters...>());
  return cuda_sim::launch([kernel, values] { std::apply(kernel, values); }, grid, block, stream);
}

template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, Kernel, int threads, size_t) {
  return cuda_sim::blocks_per_multiprocessor(count, threads);
}
