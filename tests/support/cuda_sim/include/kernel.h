// The simulated device's language: what nvcc knows without a header.
//
// A block is one host thread, and its threads are fibers of it that change places in __syncthreads() and wherever one waits. So
// __shared__ is a thread-local variable. ThreadSanitizer is told of the fibers: it sees two accesses that only the order of the
// fibers keeps apart as the race that they are.
#pragma once

#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}  // NOLINT: CUDA's is implicit
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

namespace cuda_sim {

struct ThreadPlace {
  uint3 thread;
  uint3 block;
  dim3 block_size;
  dim3 grid_size;
};

// Of the kernel's thread that calls. Calling these outside a kernel ends the program.
__attribute__((visibility("default"))) const ThreadPlace& place();
__attribute__((visibility("default"))) int barrier(int value);  // all threads of the block; any value that is not 0
// Lets the other threads of the block, and other blocks, go on.
__attribute__((visibility("default"))) void yield();
// With a seed (control.h): sometimes yields, so that every run has another order. Atomics call it.
__attribute__((visibility("default"))) void shuffle();

}  // namespace cuda_sim

#define threadIdx (cuda_sim::place().thread)
#define blockIdx (cuda_sim::place().block)
#define blockDim (cuda_sim::place().block_size)
#define gridDim (cuda_sim::place().grid_size)

inline void __syncthreads() { cuda_sim::barrier(0); }
inline int __syncthreads_or(int value) { return cuda_sim::barrier(value); }
inline void __nanosleep(unsigned) { cuda_sim::yield(); }
