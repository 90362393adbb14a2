// All-reduce in the switch (NVLS): multimem instructions on an address that means every rank's buffer.
//
// Unproven: it needs two GPUs behind an NVSwitch. The host asks has_multicast() first, makes the multicast object
// (cuMulticastCreate, every device bound) and passes its address. Sums of float32, float16 and bfloat16; the switch adds in
// float32.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "kernels/cuda/shared.h"

namespace gimbal::device {

// Blocks of one launch; each meets its counterparts of the other ranks by words of its own.
inline constexpr uint32_t kMaxMulticastBlocks = 32;

struct MulticastArguments {
  std::byte* multicast;  // the bound buffers, in place; 16-byte aligned
  size_t bytes;          // a multiple of 16
  // Every rank's words, zeroed once: kMaxMulticastBlocks * nranks, by block, then by who writes.
  std::array<uint32_t*, kMaxNativeRanks> arrivals;
  Rank rank;
  Rank nranks;
  Watch watch;
};

// Whether the device and its driver know multicast objects. That all ranks' devices hang on one switch is for the host to know.
bool has_multicast(int device);

// cudaErrorNotSupported for other types. A device before sm_90 reports DeviceError::kUnsupported.
cudaError_t launch_multicast_sum(DType dtype, const MulticastArguments& arguments, uint32_t blocks, unsigned threads,
                                 cudaStream_t stream);

}  // namespace gimbal::device
