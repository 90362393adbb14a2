// The kernels of kernels/cuda as an interface: whoever launches them needs neither CUDA's headers nor its compiler.
//
// Kernels are launched on the current device and its stream, which they may wait on for other ranks: all their blocks, of all
// ranks that share the device, must be resident at once.
#pragma once

#include <cstddef>

#include "base/cuda.h"
#include "base/status.h"
#include "base/types.h"
#include "kernels/cuda/shared.h"

namespace gimbal {

enum class NativeForm : uint8_t { kOneShot, kTwoShot };

struct GridShape {
  unsigned blocks = 1;
  unsigned threads = 1;
};

class DeviceKernels {
 public:
  static constexpr unsigned kMaxThreads = 512;

  DeviceKernels() = default;
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;
  virtual ~DeviceKernels() = default;

  // Of the kernels below, whatever type and operation: how many blocks the current device holds at once. Loads them too: a
  // kernel that is loaded at its first launch may have to wait for one that waits for it.
  virtual Result<size_t> load() = 0;
  // Of each rank's packet memory, for messages of up to so many bytes.
  virtual size_t packet_memory_bytes(Rank nranks, size_t one_shot_bytes, size_t two_shot_bytes) = 0;
  virtual Status all_reduce(NativeForm form, DType dtype, const device::NativeArguments& arguments, GridShape shape,
                            CudaStream stream) = 0;
  // Collectives that add nothing: kUint8 and kSum, whatever their type.
  virtual Status interpret(DType dtype, const device::InterpreterArguments& arguments, unsigned threads, CudaStream stream) = 0;
};

// What this program was linked with; nullptr in a build without.
DeviceKernels* linked_device_kernels();

}  // namespace gimbal
