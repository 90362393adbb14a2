// The DeviceKernels interface by launch.h. Compiled like cuda_api.cc: for the library, and for simulated devices.
#include "kernels/device_kernels.h"

#include <algorithm>
#include <string>

#include "kernels/cuda/launch.h"

namespace gimbal {
namespace {

Status check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) [[likely]]
    return {};
  static_cast<void>(cudaGetLastError());  // or the caller's next look at it would find this one
  return {Code::kDevice, std::string(call) + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")"};
}

class LinkedKernels final : public DeviceKernels {
 public:
  Result<size_t> load() override {
    int device = 0;
    int multiprocessors = 0;
    RETURN_IF_ERROR(check(cudaGetDevice(&device), "cudaGetDevice"));
    RETURN_IF_ERROR(
        check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute"));
    int fewest = device::kMaxThreads;
    for (int dtype = 0; dtype < kPublicDTypeCount; ++dtype) {
      for (int op = 0; op < kReduceOpCount; ++op) {
        if (!is_supported(static_cast<DType>(dtype), static_cast<ReduceOp>(op))) continue;
        for (const device::KernelKind kind :
             {device::KernelKind::kOneShot, device::KernelKind::kTwoShot, device::KernelKind::kInterpreter}) {
          int blocks = 0;
          RETURN_IF_ERROR(check(device::blocks_per_multiprocessor(kind, static_cast<DType>(dtype), static_cast<ReduceOp>(op),
                                                                  device::kMaxThreads, &blocks),
                                "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
          fewest = std::min(fewest, blocks);
        }
      }
    }
    return static_cast<size_t>(fewest) * static_cast<size_t>(multiprocessors);
  }

  size_t packet_memory_bytes(Rank nranks, size_t one_shot_bytes, size_t two_shot_bytes) override {
    return device::native_bytes(nranks, one_shot_bytes, two_shot_bytes);
  }

  Status all_reduce(NativeForm form, DType dtype, const device::NativeArguments& arguments, GridShape shape,
                    CudaStream stream) override {
    const auto launch = form == NativeForm::kOneShot ? device::launch_one_shot : device::launch_two_shot;
    const cudaError_t error = launch(dtype, arguments, {shape.blocks, shape.threads}, reinterpret_cast<cudaStream_t>(stream));
    return check(error,
                 form == NativeForm::kOneShot ? "launch of the one-shot all-reduce" : "launch of the two-shot all-reduce");
  }

  Status interpret(DType dtype, const device::InterpreterArguments& arguments, unsigned threads, CudaStream stream) override {
    return check(device::launch_interpreter(dtype, arguments, threads, reinterpret_cast<cudaStream_t>(stream)),
                 "launch of the interpreter");
  }
};

}  // namespace

DeviceKernels* linked_device_kernels() {
  static DeviceKernels* const kKernels = new LinkedKernels();
  return kKernels;
}

}  // namespace gimbal
