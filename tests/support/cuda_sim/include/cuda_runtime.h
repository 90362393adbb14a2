// A stand-in for the part of the CUDA runtime that Gimbal uses: devices are memory of this process, streams are threads, and
// kernels are C++ functions that run on host threads. It answers the questions that need no GPU (order, races, errors,
// deadlocks) and none about speed. Names, values and signatures are those of CUDA 13.
//
// What is here, by subject:
//   errors      cudaGetLastError PeekAtLastError GetErrorName GetErrorString
//   devices     cudaGetDeviceCount Get/SetDevice GetDeviceProperties DeviceGetAttribute DeviceGetPCIBusId DeviceSynchronize
//               DriverGetVersion RuntimeGetVersion MemGetInfo
//   peers       cudaDeviceCanAccessPeer DeviceEnablePeerAccess DeviceDisablePeerAccess DeviceGetP2PAttribute
//   memory      cudaMalloc Free MallocHost HostAlloc FreeHost HostRegister HostUnregister HostGetDevicePointer
//               PointerGetAttributes Memcpy MemcpyAsync MemcpyPeerAsync Memset MemsetAsync
//   streams     cudaStreamCreate CreateWithFlags CreateWithPriority Destroy Synchronize Query WaitEvent GetDevice GetFlags
//               DeviceGetStreamPriorityRange LaunchHostFunc; cudaStreamLegacy, cudaStreamPerThread
//   events      cudaEventCreate CreateWithFlags Destroy Record Query Synchronize ElapsedTime
//   processes   cudaIpcGetMemHandle OpenMemHandle CloseMemHandle GetEventHandle OpenEventHandle
//   graphs      cudaStreamBeginCapture EndCapture IsCapturing GetCaptureInfo ThreadExchangeStreamCaptureMode
//               cudaGraphInstantiate Launch ExecDestroy Destroy
//   kernels     cudaLaunchKernel OccupancyMaxActiveBlocksPerMultiprocessor; and of the language (kernel.h): __global__
//               __device__ __host__ __shared__ threadIdx blockIdx blockDim gridDim __syncthreads __syncthreads_or __nanosleep
//
// How many devices there are, and what goes wrong, is set by control.h or by environment variables (see there). A kernel's
// blocks are resident only while the device has room for them (multiprocessors times blocks per multiprocessor), in the order
// of their launches: kernels that wait for one another and do not fit together hang here as they do on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernel.h"

#define CUDART_VERSION 13000
#define CUDA_SIM_API __attribute__((visibility("default")))

enum cudaError : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDevicePointer = 17,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorDeviceUninitialized = 201,
  cudaErrorPeerAccessUnsupported = 217,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorPeerAccessNotEnabled = 705,
  cudaErrorHostMemoryAlreadyRegistered = 712,
  cudaErrorHostMemoryNotRegistered = 713,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorUnknown = 999,
};
using cudaError_t = cudaError;

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgraphNode_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;
using cudaGraphNode_t = CUgraphNode_st*;
using cudaHostFn_t = void (*)(void*);
struct cudaGraphEdgeData {
  unsigned char bytes[8];
};
#define cudaStreamLegacy (reinterpret_cast<cudaStream_t>(0x1))
#define cudaStreamPerThread (reinterpret_cast<cudaStream_t>(0x2))

enum cudaMemcpyKind : int {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum cudaMemoryType : int {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
  cudaMemoryTypeManaged = 3,
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
};

inline constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2;
inline constexpr unsigned cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2;
inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2,
                          cudaEventInterprocess = 4;
inline constexpr unsigned cudaEventRecordDefault = 0, cudaEventWaitDefault = 0;
inline constexpr unsigned cudaIpcMemLazyEnablePeerAccess = 1;

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  int maxThreadsPerBlock;
  int multiProcessorCount;
  int maxThreadsPerMultiProcessor;
  int major;
  int minor;
  int l2CacheSize;
  int unifiedAddressing;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
};
enum cudaDeviceAttr : int {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrPciBusId = 33,
  cudaDevAttrPciDeviceId = 34,
  cudaDevAttrUnifiedAddressing = 41,
  cudaDevAttrPciDomainId = 50,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};
enum cudaDeviceP2PAttr : int {
  cudaDevP2PAttrPerformanceRank = 1,
  cudaDevP2PAttrAccessSupported = 2,
  cudaDevP2PAttrNativeAtomicSupported = 3,
};
struct cudaIpcMemHandle_t {
  char reserved[64];
};
struct cudaIpcEventHandle_t {
  char reserved[64];
};
enum cudaStreamCaptureMode : int {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
enum cudaStreamCaptureStatus : int {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};

#include "cuda_runtime_functions.h"
