// The simulated CUDA runtime keeps the promises that Gimbal's device code and its host side rely on.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cuda/atomic>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/cuda_sim/control.h"
#include "tests/unit/cuda/device.h"

namespace gimbal::test {
namespace {

struct AddArguments {
  uint64_t* to;
  uint64_t value;
};
__global__ void add(AddArguments arguments) { *arguments.to = *arguments.to * 10 + arguments.value; }

// Each thread leaves its number and reads its neighbour's.
__global__ void turn(uint32_t* values) {
  __shared__ uint32_t left[64];
  left[threadIdx.x] = threadIdx.x + 100 * blockIdx.x;
  __syncthreads();
  values[blockIdx.x * blockDim.x + threadIdx.x] = left[(threadIdx.x + 1) % blockDim.x];
}

struct PingArguments {
  uint32_t* own;
  uint32_t* other;
  uint32_t* turns;
};
// Two of these end only when they run at the same time.
__global__ void ping(PingArguments arguments) {
  const cuda::atomic_ref<uint32_t> own(*arguments.own), other(*arguments.other);
  other.store(1, cuda::memory_order_release);
  while (own.load(cuda::memory_order_acquire) != 1) __nanosleep(20);
  own.store(0, cuda::memory_order_relaxed);
  ++*arguments.turns;
}

template <typename T>
cudaError_t start(void (*kernel)(T), dim3 grid, dim3 block, cudaStream_t stream, T argument) {
  void* arguments[] = {&argument};
  return cudaLaunchKernel(kernel, grid, block, arguments, 0, stream);
}

TEST(CudaSimulator, TasksOfAStreamRunInTheirOrder) {
  const DeviceArray<uint64_t> value(1);
  const Stream stream;
  ASSERT_EQ(cudaMemsetAsync(value.get(), 0, 8, stream.get()), cudaSuccess);
  for (uint64_t i = 1; i <= 5; ++i) ASSERT_EQ(start(add, 1, 1, stream.get(), AddArguments{value.get(), i}), cudaSuccess);
  EXPECT_EQ(stream.finish(), cudaSuccess);
  EXPECT_EQ(value.read()[0], 12345U);
}

TEST(CudaSimulator, AnEventOrdersTwoStreams) {
  const DeviceArray<uint64_t> value(1);
  const Stream first, second;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  for (uint64_t i = 0; i < 50; ++i) {
    start(add, 1, 1, first.get(), AddArguments{value.get(), 1});
    cudaEventRecord(event, first.get());
    cudaStreamWaitEvent(second.get(), event);
    cudaMemsetAsync(value.get(), 0, 8, second.get());
    start(add, 1, 1, second.get(), AddArguments{value.get(), 2});
    cudaEventRecord(event, second.get());
    cudaStreamWaitEvent(first.get(), event);
  }
  EXPECT_EQ(second.finish(), cudaSuccess);
  EXPECT_EQ(value.read()[0], 2U);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST(CudaSimulator, ThreadsOfABlockMeetAtTheBarrier) {
  constexpr uint32_t kThreads = 64, kBlocks = 5;
  const DeviceArray<uint32_t> values(size_t{kThreads} * kBlocks);
  const Stream stream;
  ASSERT_EQ(start(turn, kBlocks, kThreads, stream.get(), values.get()), cudaSuccess);
  ASSERT_EQ(stream.finish(), cudaSuccess);
  const std::vector<uint32_t> read = values.read();
  for (uint32_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i], (i + 1) % kThreads + 100 * (i / kThreads)) << i;
}

TEST(CudaSimulator, AGraphReplaysItsBranchesAtTheSameTime) {
  const DeviceArray<uint32_t> flags(4);
  const Stream origin, branch;
  cudaEvent_t forked = nullptr, joined = nullptr;
  cudaEventCreateWithFlags(&forked, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&joined, cudaEventDisableTiming);
  ASSERT_EQ(cudaStreamBeginCapture(origin.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaEventRecord(forked, origin.get());
  cudaStreamWaitEvent(branch.get(), forked);
  uint32_t* const flag = flags.get();
  start(ping, 1, 1, origin.get(), PingArguments{flag, flag + 1, flag + 2});
  start(ping, 1, 1, branch.get(), PingArguments{flag + 1, flag, flag + 3});
  cudaEventRecord(joined, branch.get());
  cudaStreamWaitEvent(origin.get(), joined);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(origin.get(), &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  EXPECT_EQ(flags.read()[2], 0U) << "a captured launch ran";
  for (int i = 0; i < 20; ++i) EXPECT_EQ(cudaGraphLaunch(exec, origin.get()), cudaSuccess);
  EXPECT_EQ(origin.finish(), cudaSuccess);
  EXPECT_EQ(flags.read(), (std::vector<uint32_t>{0, 0, 20, 20}));
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaEventDestroy(forked);
  cudaEventDestroy(joined);
}

TEST(CudaSimulator, AStreamThatACaptureDoesNotJoinAgainSpoilsIt) {
  const DeviceArray<uint64_t> value(1);
  const Stream origin, branch;
  cudaEvent_t forked = nullptr;
  cudaEventCreateWithFlags(&forked, cudaEventDisableTiming);
  ASSERT_EQ(cudaStreamBeginCapture(origin.get(), cudaStreamCaptureModeRelaxed), cudaSuccess);
  cudaEventRecord(forked, origin.get());
  cudaStreamWaitEvent(branch.get(), forked);
  start(add, 1, 1, branch.get(), AddArguments{value.get(), 1});
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(origin.get(), &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  cudaEventDestroy(forked);
  cudaGetLastError();
}

TEST(CudaSimulator, SynchronisingInACaptureIsRefused) {
  const Stream stream;
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(stream.finish(), cudaErrorStreamCaptureUnsupported);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(CudaSimulator, PointersAreTold) {
  const DeviceArray<uint64_t> device(4);
  std::vector<uint64_t> host(4);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, device.get() + 3), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, host.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  ASSERT_EQ(cudaHostRegister(host.data(), 32, cudaHostRegisterMapped), cudaSuccess);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &host[1]), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaSuccess);
}

TEST(CudaSimulator, AllThatADeviceHasIsAllThatItGives) {
  const SimulatedMachine machine({.memory_bytes = 1 << 20});
  const DeviceArray<uint8_t> most(1 << 19);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, (1 << 19) + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&memory, 1 << 19), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST(CudaSimulator, FaultsAreThoseOfAMachineThatHasThem) {
  int count = -1;
  {
    const SimulatedMachine machine({.fault = cuda_sim::Fault::kNoDriver});
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaDriverGetVersion(&count), cudaSuccess);
    EXPECT_EQ(count, 0);
  }
  {
    const SimulatedMachine machine({.fault = cuda_sim::Fault::kNoDevice});
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  }
  const SimulatedMachine machine({.devices = 2, .fault = cuda_sim::Fault::kPeerRefused});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(cudaDeviceCanAccessPeer(&count, 0, 1), cudaSuccess);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessUnsupported);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  cudaGetLastError();
}

// Run by the test below in a program of its own, since the forked child of a user of CUDA cannot use it.
TEST(CudaSimulator, DISABLED_TheOtherProcess) {
  const int descriptor = std::atoi(std::getenv("GIMBAL_TEST_HANDLES"));
  cudaIpcMemHandle_t memory_handle{};
  cudaIpcEventHandle_t event_handle{};
  ASSERT_EQ(read(descriptor, &memory_handle, sizeof(memory_handle)), static_cast<ssize_t>(sizeof(memory_handle)));
  ASSERT_EQ(read(descriptor, &event_handle, sizeof(event_handle)), static_cast<ssize_t>(sizeof(event_handle)));
  void* memory = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaIpcOpenMemHandle(&memory, memory_handle, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
  ASSERT_EQ(cudaIpcOpenEventHandle(&event, event_handle), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  auto* const values = static_cast<uint64_t*>(memory);
  EXPECT_EQ(values[1], 7U);
  values[2] = 70;
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaIpcCloseMemHandle(memory), cudaSuccess);
}

TEST(CudaSimulator, MemoryAndEventsOfAnotherProcessAreSeen) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const std::string descriptor = std::to_string(ends[0]);
  const pid_t child = fork();
  if (child == 0) {
    setenv("GIMBAL_TEST_HANDLES", descriptor.c_str(), 1);
    execl("/proc/self/exe", "unit_cuda", "--gtest_filter=*TheOtherProcess", "--gtest_also_run_disabled_tests",
          "--gtest_brief=1", nullptr);
    _exit(127);
  }
  const DeviceArray<uint64_t> value(4);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess), cudaSuccess);
  const Stream stream;
  ASSERT_EQ(start(add, 1, 1, stream.get(), AddArguments{value.get() + 1, 7}), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream.get()), cudaSuccess);
  cudaIpcMemHandle_t memory_handle{};
  cudaIpcEventHandle_t event_handle{};
  ASSERT_EQ(cudaIpcGetMemHandle(&memory_handle, value.get() + 1), cudaSuccess);
  ASSERT_EQ(cudaIpcGetEventHandle(&event_handle, event), cudaSuccess);
  void* own = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&own, memory_handle, cudaIpcMemLazyEnablePeerAccess), cudaErrorDeviceUninitialized);
  ASSERT_EQ(write(ends[1], &memory_handle, sizeof(memory_handle)), static_cast<ssize_t>(sizeof(memory_handle)));
  ASSERT_EQ(write(ends[1], &event_handle, sizeof(event_handle)), static_cast<ssize_t>(sizeof(event_handle)));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(stream.finish(), cudaSuccess);
  EXPECT_EQ(value.read()[2], 70U);
  close(ends[0]);
  close(ends[1]);
  cudaEventDestroy(event);
  cudaGetLastError();
}

}  // namespace
}  // namespace gimbal::test
