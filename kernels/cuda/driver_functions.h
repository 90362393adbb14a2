// What the CUDA driver does and the CUDA runtime does not: telling whose a pointer is without making a context, letting a
// stream wait for a word of memory, and what CUDA 12's runtime cannot ask for. For cuda_api.cc only; the simulated device has
// functions of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/cuda.h"

namespace gimbal::cuda_driver {

PointerFacts look_at(const void* pointer);
// What the runtime says of a pointer, in our words.
inline PointerFacts facts_of(const cudaPointerAttributes& attributes) {
  switch (attributes.type) {
    case cudaMemoryTypeUnregistered:
      return {};
    case cudaMemoryTypeHost:
      return {MemoryKind::kPinned, -1};
    case cudaMemoryTypeDevice:
      return {MemoryKind::kDevice, attributes.device};
    case cudaMemoryTypeManaged:
      return {MemoryKind::kManaged, attributes.device};
  }
  return {};
}
bool has_mps(int device);
Status wait_for_word(uint32_t* word, uint32_t value, cudaStream_t stream);

}  // namespace gimbal::cuda_driver
