// A block sends messages of its threads to another block over a DeviceLink, as the interpreter does. Sound, ThreadSanitizer has
// nothing to say of it; with one order or one barrier left out it must see the race, or its silence in the other tests means
// nothing.
//
//   flag_race            sound, or with GIMBAL_PLANTED_RELEASE without the release that publishes a slot
//   flag_race barrier    without the barrier between the threads' bytes and the publication
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "kernels/cuda/platform.h"
#if defined(GIMBAL_PLANTED_RELEASE)
#define memory_order_release memory_order_relaxed
#endif
#include "kernels/cuda/link_end.h"

namespace gimbal::device {
namespace {

constexpr uint64_t kMessages = 20;
constexpr unsigned kThreads = 4;

struct Side {
  DeviceLink link;
  bool has_barrier;
  uint64_t* sum;
};

__global__ void send(Side side) {
  for (uint64_t message = 0; message < kMessages; ++message) {
    if (threadIdx.x == 0) {
      while (!has_room(side.link)) pause(0);
    }
    __syncthreads();
    reinterpret_cast<uint64_t*>(slot_of(side.link, message))[threadIdx.x] = message + threadIdx.x;
    if (side.has_barrier) __syncthreads();
    if (threadIdx.x == 0) publish_slot(side.link, 1, kThreads * sizeof(uint64_t));
  }
}

__global__ void receive(Side side) {
  for (uint64_t message = 0; message < kMessages; ++message) {
    if (threadIdx.x == 0) {
      while (!has_message(side.link)) pause(0);
    }
    __syncthreads();
    side.sum[threadIdx.x] += reinterpret_cast<uint64_t*>(slot_of(side.link, message))[(threadIdx.x + 1) % kThreads];
    __syncthreads();
    if (threadIdx.x == 0) release_slot(side.link);
  }
}

template <typename T>
T* allocate(size_t count) {
  T* memory = nullptr;
  cudaMalloc(&memory, count * sizeof(T));
  return memory;
}

cudaStream_t start(void (*kernel)(Side), Side side) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  void* arguments[] = {&side};
  cudaLaunchKernel(kernel, dim3(1), dim3(kThreads), arguments, 0, stream);
  return stream;
}

int run(bool has_barrier) {
  constexpr uint32_t kSlots = 2;
  auto* const words = allocate<uint64_t>(4);
  DeviceLink link{};
  link.slot_count = kSlots;
  link.slot_stride = kThreads * sizeof(uint64_t);
  link.slots = allocate<std::byte>(kSlots * link.slot_stride);
  link.headers = allocate<SlotHeader>(kSlots);
  link.tail = words;
  link.head = words + 1;
  auto* const sum = allocate<uint64_t>(kThreads);
  link.position = words + 2;
  const cudaStream_t sender = start(send, {link, has_barrier, nullptr});
  link.position = words + 3;
  const cudaStream_t receiver = start(receive, {link, has_barrier, sum});
  cudaStreamSynchronize(sender);
  cudaStreamSynchronize(receiver);
  constexpr uint64_t kWanted = kMessages * (kMessages - 1) / 2 + kMessages;  // of thread 0, which reads thread 1's
  std::printf("sum %s\n", sum[0] == kWanted ? "right" : "wrong");
  return sum[0] == kWanted ? 0 : 1;
}

}  // namespace
}  // namespace gimbal::device

int main(int argc, char** argv) { return gimbal::device::run(argc < 2 || std::strcmp(argv[1], "barrier") != 0); }
