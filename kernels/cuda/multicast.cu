#include "kernels/cuda/multicast.h"

#include "kernels/cuda/watch.h"

namespace gimbal::device {
namespace {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool kHasMultimem = true;
__device__ __forceinline__ uint4 add_in_switch(const std::byte* at, DType dtype) {
  uint4 sum;
  switch (dtype) {
    case DType::kFloat16:
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];"
                   : "=r"(sum.x), "=r"(sum.y), "=r"(sum.z), "=r"(sum.w)
                   : "l"(at)
                   : "memory");
      return sum;
    case DType::kBfloat16:
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, [%4];"
                   : "=r"(sum.x), "=r"(sum.y), "=r"(sum.z), "=r"(sum.w)
                   : "l"(at)
                   : "memory");
      return sum;
    default:
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(sum.x), "=r"(sum.y), "=r"(sum.z), "=r"(sum.w)
                   : "l"(at)
                   : "memory");
      return sum;
  }
}
__device__ __forceinline__ void store_everywhere(std::byte* at, uint4 value) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w)
               : "memory");
}
#else
constexpr bool kHasMultimem = false;
__device__ __forceinline__ uint4 add_in_switch(const std::byte*, DType) { return {}; }
__device__ __forceinline__ void store_everywhere(std::byte*, uint4) {}
#endif

// This block's counterparts of all ranks: thread r tells rank r, and waits for it. The release publishes what the block's
// threads did before the barrier of the block; the acquire makes the peers' known to those behind the next. The word counts
// meetings, so that a replayed graph goes on where the last one ended.
__device__ bool meet(const MulticastArguments& arguments) {
  __syncthreads();
  bool met = true;
  const auto peer = static_cast<Rank>(threadIdx.x);
  if (peer < arguments.nranks && peer != arguments.rank) {
    const size_t row = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(arguments.nranks);
    uint32_t& own_count = arguments.arrivals[static_cast<size_t>(arguments.rank)][row + static_cast<size_t>(arguments.rank)];
    const uint32_t meeting = own_count + 1;
    const SharedWord<uint32_t> theirs(arguments.arrivals[static_cast<size_t>(peer)][row + static_cast<size_t>(arguments.rank)]);
    const SharedWord<uint32_t> ours(arguments.arrivals[static_cast<size_t>(arguments.rank)][row + static_cast<size_t>(peer)]);
    theirs.store(meeting, memory_order_release);
    Wait wait(arguments.watch);
    // The peer may be one meeting ahead.
    while (met && static_cast<int32_t>(ours.load(memory_order_acquire) - meeting) < 0) {
      const DeviceError error = wait.turn();
      if (error == DeviceError::kNone) continue;
      Trouble trouble;
      trouble.error = error;
      trouble.peer = peer;
      if (error != DeviceError::kClaimed) report(arguments.watch, trouble);
      met = false;
    }
  }
  const bool all_met = __syncthreads_or(met ? 0 : 1) == 0;
  if (threadIdx.x == 0)
    ++arguments.arrivals[static_cast<size_t>(arguments.rank)][blockIdx.x * arguments.nranks + arguments.rank];
  return all_met;
}

// Rank r adds its share of the vectors and stores it into every buffer.
__global__ void __launch_bounds__(kMaxThreads, 1)
    multicast_sum_kernel(const __grid_constant__ MulticastArguments arguments, DType dtype) {
  if (__syncthreads_or(has_failed(arguments.watch) ? 1 : 0) != 0) return;
  if (!kHasMultimem) {
    Trouble trouble;
    trouble.error = DeviceError::kUnsupported;
    if (threadIdx.x == 0) report(arguments.watch, trouble);
    return;
  }
  if (!meet(arguments)) return;
  const size_t vectors = arguments.bytes / sizeof(uint4);
  const auto nranks = static_cast<size_t>(arguments.nranks);
  const size_t share = (vectors + nranks - 1) / nranks;
  const size_t first = static_cast<size_t>(arguments.rank) * share;
  const size_t end = first + share < vectors ? first + share : vectors;
  const size_t threads = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = first + static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < end; i += threads) {
    std::byte* const at = arguments.multicast + i * sizeof(uint4);
    store_everywhere(at, add_in_switch(at, dtype));
  }
  meet(arguments);
}

}  // namespace

bool has_multicast(int device) {
  // The driver's CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, for which the runtime's enumeration has no name.
  constexpr auto kMulticastSupported = static_cast<cudaDeviceAttr>(132);
  int supported = 0;
  return cudaDeviceGetAttribute(&supported, kMulticastSupported, device) == cudaSuccess && supported != 0;
}

cudaError_t launch_multicast_sum(DType dtype, const MulticastArguments& arguments, uint32_t blocks, unsigned threads,
                                 cudaStream_t stream) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBfloat16) return cudaErrorNotSupported;
  const bool is_whole = arguments.bytes % sizeof(uint4) == 0;
  const bool ranks_fit = arguments.nranks >= 1 && arguments.nranks <= kMaxNativeRanks;
  const bool shape_fits = blocks >= 1 && blocks <= kMaxMulticastBlocks && threads <= kMaxThreads &&
                          threads >= static_cast<unsigned>(arguments.nranks);
  if (!is_whole || !ranks_fit || !shape_fits) return cudaErrorInvalidValue;
  MulticastArguments copy = arguments;
  void* parameters[] = {&copy, &dtype};
  return cudaLaunchKernel(multicast_sum_kernel, dim3(blocks), dim3(threads), parameters, 0, stream);
}

}  // namespace gimbal::device
