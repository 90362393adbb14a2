// k operands to m destinations, by all threads that call: the sum of every kernel.
//
// 16 bytes an access where all arrays allow it, kUnroll of them and of several operands in flight, rank order, one rounding.
// The arithmetic of an element does not depend on its place, so neither alignment nor the number of threads changes a bit.
#pragma once

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/shared.h"

namespace gimbal::device {

// Which threads share a range.
struct Team {
  size_t rank;
  size_t size;
};

__device__ __forceinline__ Team block_team() { return {threadIdx.x, blockDim.x}; }
__device__ __forceinline__ Team grid_team() {
  return {static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x, static_cast<size_t>(gridDim.x) * blockDim.x};
}

// The arrays of one call, wherever they stand (kernel parameters or a thread's memory).
struct Arrays {
  const ReduceOperand* sources;
  void* const* destinations;
  uint32_t source_count;
  uint32_t destination_count;
  Form destination_form;
};

inline constexpr size_t kVectorBytes = 16;

template <class A>
struct Reducer {
  using Element = typename A::Element;
  using Partial = typename A::Partial;
  using Value = typename A::Value;
  static constexpr int kLanes = kVectorBytes / sizeof(Element);
  // Accumulators of more than 64 bytes a thread would spill if there were two sets.
  static constexpr int kUnroll = kLanes * sizeof(Value) > 64 ? 1 : 2;
  static constexpr int kBatch = 4;  // operands whose loads are in flight together

  struct Lanes {
    Value lane[kLanes];
  };

  A arithmetic;
  Arrays arrays;

  static __device__ __forceinline__ uint4 load_vector(const void* from) { return *static_cast<const uint4*>(from); }

  __device__ __forceinline__ Lanes decode(uint4 vector) const {
    Element elements[kLanes];
    memcpy(elements, &vector, kVectorBytes);
    Lanes result;
#pragma unroll
    for (int i = 0; i < kLanes; ++i) result.lane[i] = arithmetic.load(elements[i]);
    return result;
  }

  __device__ __forceinline__ Lanes load_partials(const void* from) const {
    constexpr int kVectors = kLanes * sizeof(Partial) / kVectorBytes;
    uint4 vectors[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) vectors[i] = static_cast<const uint4*>(from)[i];
    Partial partials[kLanes];
    memcpy(partials, vectors, sizeof(partials));
    Lanes result;
#pragma unroll
    for (int i = 0; i < kLanes; ++i) result.lane[i] = arithmetic.load_partial(partials[i]);
    return result;
  }

  __device__ __forceinline__ void add(Lanes& sum, Lanes operand, uint32_t source) const {
    if constexpr (A::kScales) {
      const double weight = arrays.sources[source].weight;
#pragma unroll
      for (int i = 0; i < kLanes; ++i) operand.lane[i] = arithmetic.scale(operand.lane[i], weight);
    }
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      sum.lane[i] = source == 0 ? operand.lane[i] : arithmetic.combine(sum.lane[i], operand.lane[i]);
    }
  }

  __device__ __forceinline__ void store(const Lanes& sum, size_t first) const {
    if (arrays.destination_form == Form::kPartial) {
      constexpr int kVectors = kLanes * sizeof(Partial) / kVectorBytes;
      Partial partials[kLanes];
#pragma unroll
      for (int i = 0; i < kLanes; ++i) partials[i] = arithmetic.store_partial(sum.lane[i]);
      uint4 vectors[kVectors];
      memcpy(vectors, partials, sizeof(partials));
      for (uint32_t k = 0; k < arrays.destination_count; ++k) {
        auto* const to = reinterpret_cast<uint4*>(static_cast<Partial*>(arrays.destinations[k]) + first);
#pragma unroll
        for (int i = 0; i < kVectors; ++i) to[i] = vectors[i];
      }
      return;
    }
    Element elements[kLanes];
#pragma unroll
    for (int i = 0; i < kLanes; ++i) elements[i] = arithmetic.store(sum.lane[i]);
    uint4 vector;
    memcpy(&vector, elements, kVectorBytes);
    for (uint32_t k = 0; k < arrays.destination_count; ++k) {
      *reinterpret_cast<uint4*>(static_cast<Element*>(arrays.destinations[k]) + first) = vector;
    }
  }

  // One element of each.
  __device__ __forceinline__ void reduce_one(size_t at) const {
    Value sum{};
    for (uint32_t s = 0; s < arrays.source_count; ++s) {
      const ReduceOperand& source = arrays.sources[s];
      Value value = source.form == Form::kPartial ? arithmetic.load_partial(static_cast<const Partial*>(source.data)[at])
                                                  : arithmetic.load(static_cast<const Element*>(source.data)[at]);
      if constexpr (A::kScales) value = arithmetic.scale(value, source.weight);
      sum = s == 0 ? value : arithmetic.combine(sum, value);
    }
    for (uint32_t k = 0; k < arrays.destination_count; ++k) {
      if (arrays.destination_form == Form::kPartial) {
        static_cast<Partial*>(arrays.destinations[k])[at] = arithmetic.store_partial(sum);
      } else {
        static_cast<Element*>(arrays.destinations[k])[at] = arithmetic.store(sum);
      }
    }
  }

  // kUnroll vectors at lane `first` and every `stride` lanes, those below `end`.
  __device__ __forceinline__ void reduce_elements(size_t first, size_t stride, size_t end) const {
    Lanes sums[kUnroll]{};
    for (uint32_t begin = 0; begin < arrays.source_count; begin += kBatch) {
      uint4 loaded[kBatch][kUnroll];
#pragma unroll
      for (int s = 0; s < kBatch; ++s) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          const size_t at = first + u * stride;
          if (begin + s < arrays.source_count && at < end) {
            loaded[s][u] = load_vector(static_cast<const Element*>(arrays.sources[begin + s].data) + at);
          } else {
            loaded[s][u] = uint4{};
          }
        }
      }
#pragma unroll
      for (int s = 0; s < kBatch; ++s) {
        if (begin + s < arrays.source_count) {
#pragma unroll
          for (int u = 0; u < kUnroll; ++u) add(sums[u], decode(loaded[s][u]), begin + s);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u * stride < end) store(sums[u], first + u * stride);
    }
  }

  // Operands of both forms: one vector of lanes.
  __device__ __forceinline__ void reduce_mixed(size_t at) const {
    Lanes sum{};
    for (uint32_t s = 0; s < arrays.source_count; ++s) {
      const ReduceOperand& source = arrays.sources[s];
      add(sum,
          source.form == Form::kPartial ? load_partials(static_cast<const Partial*>(source.data) + at)
                                        : decode(load_vector(static_cast<const Element*>(source.data) + at)),
          s);
    }
    store(sum, at);
  }

  // Whether element `at` of an array begins a vector.
  static __device__ __forceinline__ bool is_aligned(const void* array, Form form, size_t at) {
    const size_t size = form == Form::kPartial ? sizeof(Partial) : sizeof(Element);
    return (reinterpret_cast<uintptr_t>(array) + at * size) % kVectorBytes == 0;
  }

  // Elements before the first that begins a vector in every array; count when there is none.
  __device__ __forceinline__ size_t lanes_before_vectors(size_t count) const {
    for (size_t at = 0; at < static_cast<size_t>(kLanes) && at < count; ++at) {
      bool all = true;
      for (uint32_t s = 0; s < arrays.source_count; ++s) all &= is_aligned(arrays.sources[s].data, arrays.sources[s].form, at);
      for (uint32_t k = 0; k < arrays.destination_count; ++k) {
        all &= is_aligned(arrays.destinations[k], arrays.destination_form, at);
      }
      if (all) return at;
    }
    return count;
  }

  __device__ void run(size_t count, Team team) const {
    bool only_elements = true;
    for (uint32_t s = 0; s < arrays.source_count; ++s) only_elements &= arrays.sources[s].form == Form::kElement;
    const size_t before = lanes_before_vectors(count);
    const size_t end = before + (count - before) / kLanes * kLanes;
    const size_t stride = team.size * kLanes;
    // The elements before the first vector and those after the last.
    for (size_t i = team.rank; i < before + (count - end); i += team.size) reduce_one(i < before ? i : end + (i - before));
    if (only_elements) {
      for (size_t at = before + team.rank * kLanes; at < end; at += kUnroll * stride) reduce_elements(at, stride, end);
    } else {
      for (size_t at = before + team.rank * kLanes; at < end; at += stride) reduce_mixed(at);
    }
  }
};

// memcpy by a team; what cannot be copied in vectors is copied in bytes.
__device__ inline void copy_range(void* to, const void* from, size_t bytes, Team team) {
  auto* const target = static_cast<unsigned char*>(to);
  const auto* const source = static_cast<const unsigned char*>(from);
  const size_t offset = reinterpret_cast<uintptr_t>(target) % kVectorBytes;
  const bool in_step = reinterpret_cast<uintptr_t>(source) % kVectorBytes == offset;
  size_t before = in_step ? (kVectorBytes - offset) % kVectorBytes : bytes;
  if (before > bytes) before = bytes;
  const size_t vectors = (bytes - before) / kVectorBytes;
  for (size_t at = team.rank; at < before; at += team.size) target[at] = source[at];
  for (size_t at = team.rank; at < vectors; at += team.size) {
    reinterpret_cast<uint4*>(target + before)[at] = reinterpret_cast<const uint4*>(source + before)[at];
  }
  for (size_t at = before + vectors * kVectorBytes + team.rank; at < bytes; at += team.size) target[at] = source[at];
}

}  // namespace gimbal::device
