// The one header between device code and the machine: CUDA's compiler, or a C++ compiler and a simulated device
// (tests/support/cuda_sim). Inline PTX and everything else that nvcc alone understands stands here, with its C++ equivalent.
#pragma once

#include <cuda_runtime.h>

#include <cuda/atomic>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if !defined(__CUDACC__)
#include <chrono>
#endif

namespace gimbal::device {

// For words that other devices, other blocks or the host read and write.
template <typename T>
using SharedWord = ::cuda::atomic_ref<T, ::cuda::thread_scope_system>;
using ::cuda::memory_order_acq_rel;
using ::cuda::memory_order_acquire;
using ::cuda::memory_order_relaxed;
using ::cuda::memory_order_release;

// 8 bytes of data, each half beside the flag that says that it has arrived.
struct alignas(16) Packet {
  uint64_t first;  // data in the lower half, flag in the upper
  uint64_t second;
};

__device__ __forceinline__ uint64_t clock_ns() {
#if defined(__CUDACC__)
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
#endif
}

// One turn of a wait. The first turns are the shortest that the machine has.
__device__ __forceinline__ void pause(uint32_t turn) {
#if defined(__CUDACC__)
  if (turn > 4096) __nanosleep(200);
#else
  static_cast<void>(turn);
  __nanosleep(0);
#endif
}

// Each half of a packet is written and read as one access of 8 bytes; the order of the halves does not matter, since each
// carries its flag.
__device__ __forceinline__ void store_packet(Packet* to, uint64_t data, uint32_t flag) {
  const uint64_t first = (data & 0xFFFFFFFFU) | static_cast<uint64_t>(flag) << 32;
  const uint64_t second = data >> 32 | static_cast<uint64_t>(flag) << 32;
#if defined(__CUDACC__)
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second) : "memory");
#else
  SharedWord<uint64_t>(to->first).store(first, memory_order_relaxed);
  SharedWord<uint64_t>(to->second).store(second, memory_order_relaxed);
#endif
}

// Whether both halves have the flag; then `data` is theirs.
__device__ __forceinline__ bool load_packet(Packet* from, uint32_t flag, uint64_t* data) {
  uint64_t first;
  uint64_t second;
#if defined(__CUDACC__)
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(from) : "memory");
#else
  first = SharedWord<uint64_t>(from->first).load(memory_order_relaxed);
  second = SharedWord<uint64_t>(from->second).load(memory_order_relaxed);
#endif
  *data = (first & 0xFFFFFFFFU) | second << 32;
  return static_cast<uint32_t>(first >> 32) == flag && static_cast<uint32_t>(second >> 32) == flag;
}

__device__ __forceinline__ float half_to_float(uint16_t bits) {
#if defined(__CUDACC__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  _Float16 value;
  std::memcpy(&value, &bits, sizeof(value));
  return static_cast<float>(value);
#endif
}

// To nearest, ties to even.
__device__ __forceinline__ uint16_t float_to_half(float value) {
  uint16_t bits;
#if defined(__CUDACC__)
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
  const auto half = static_cast<_Float16>(value);
  std::memcpy(&bits, &half, sizeof(bits));
#endif
  return bits;
}

template <typename To, typename From>
__device__ __forceinline__ To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace gimbal::device
