#include "kernels/cuda/driver_functions.h"

#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <string>

namespace gimbal::cuda_driver {
namespace {

// Null where the driver is missing or does not have them. The library is not closed: its threads run its code.
struct Functions {
  decltype(&cuPointerGetAttributes) pointer_attributes = nullptr;
  decltype(&cuStreamWaitValue32) wait_value = nullptr;
  decltype(&cuDeviceGetAttribute) attribute = nullptr;

  static const Functions& get() {
    static const Functions kFunctions = find();
    return kFunctions;
  }

 private:
  static Functions find() {
    Functions functions;
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return functions;
    functions.pointer_attributes =
        reinterpret_cast<decltype(functions.pointer_attributes)>(dlsym(library, "cuPointerGetAttributes"));
    functions.wait_value = reinterpret_cast<decltype(functions.wait_value)>(dlsym(library, "cuStreamWaitValue32_v2"));
    functions.attribute = reinterpret_cast<decltype(functions.attribute)>(dlsym(library, "cuDeviceGetAttribute"));
    return functions;
  }
};

// By the runtime, which makes a context where the thread has none.
PointerFacts look_with_context(const void* pointer) {
  cudaPointerAttributes attributes = {};
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // or the caller's next look at it would find this one
    return {};
  }
  return facts_of(attributes);
}

}  // namespace

PointerFacts look_at(const void* pointer) {
  const Functions& functions = Functions::get();
  if (functions.pointer_attributes == nullptr || pointer == nullptr) return {};
  unsigned memory_type = 0;
  unsigned is_managed = 0;
  int device = -1;
  std::array<CUpointer_attribute, 3> names = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                              CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 3> values = {&memory_type, &is_managed, &device};
  const CUresult result =
      functions.pointer_attributes(names.size(), names.data(), values.data(), reinterpret_cast<CUdeviceptr>(pointer));
  // Initialised, so somebody in this process uses devices, but not yet on this thread.
  if (result == CUDA_ERROR_INVALID_CONTEXT) return look_with_context(pointer);
  if (result != CUDA_SUCCESS) return {};  // CUDA_ERROR_NOT_INITIALIZED: nobody in this process has a device's memory
  if (is_managed != 0) return {MemoryKind::kManaged, device};
  if (memory_type == CU_MEMORYTYPE_DEVICE) return {MemoryKind::kDevice, device};
  return {memory_type == CU_MEMORYTYPE_HOST ? MemoryKind::kPinned : MemoryKind::kHost, -1};
}

bool has_mps(int device) {
  const Functions& functions = Functions::get();
  int value = 0;
  return functions.attribute != nullptr &&
         functions.attribute(&value, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device) == CUDA_SUCCESS && value != 0;
}

Status wait_for_word(uint32_t* word, uint32_t value, cudaStream_t stream) {
  const Functions& functions = Functions::get();
  if (functions.wait_value == nullptr) {
    return {Code::kDevice, "the CUDA driver has no cuStreamWaitValue32_v2: update it to one of CUDA 12 or newer"};
  }
  const CUresult result = functions.wait_value(stream, reinterpret_cast<CUdeviceptr>(word), value, CU_STREAM_WAIT_VALUE_GEQ);
  if (result == CUDA_SUCCESS) return {};
  return {Code::kDevice, "cuStreamWaitValue32: CUDA error " + std::to_string(result)};
}

}  // namespace gimbal::cuda_driver
