// Memory and events of another process.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/cuda_sim/internal.h"

using cuda_sim::note;
using cuda_sim::SharedHandle;

namespace {

cudaError_t refuse_ipc() {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  return cuda_sim::settings().fault == cuda_sim::Fault::kIpcRefused ? note(cudaErrorNotSupported) : cudaSuccess;
}

// What a handle says, and whether this process may open it: its own it may not, as with CUDA.
cudaError_t read_handle(const void* handle, SharedHandle* shared) {
  if (const cudaError_t error = refuse_ipc()) return error;
  std::memcpy(shared, handle, sizeof(*shared));
  if (shared->magic != cuda_sim::kSharedMagic) return note(cudaErrorInvalidResourceHandle);
  return shared->process == getpid() ? note(cudaErrorDeviceUninitialized) : cudaSuccess;
}

}  // namespace

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  if (const cudaError_t error = refuse_ipc()) return error;
  cuda_sim::Allocation found;
  if (!cuda_sim::find_allocation(pointer, &found) || found.type != cudaMemoryTypeDevice || found.opened) {
    return note(cudaErrorInvalidValue);
  }
  // Of the whole allocation, wherever the pointer is in it.
  const SharedHandle shared{cuda_sim::kSharedMagic, getpid(), found.descriptor, found.bytes, 0, found.device};
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &shared, sizeof(shared));
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned) {
  SharedHandle shared;
  if (const cudaError_t error = read_handle(&handle, &shared)) return error;
  char* const begin = static_cast<char*>(cuda_sim::map_shared(shared));
  if (begin == nullptr) return note(cudaErrorInvalidResourceHandle);
  cuda_sim::add_allocation({begin, shared.bytes, cudaMemoryTypeDevice, shared.device, -1, true});
  *pointer = begin;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  cuda_sim::Allocation found;
  if (!cuda_sim::find_allocation(pointer, &found) || !found.opened) return note(cudaErrorInvalidValue);
  if (!cuda_sim::remove_allocation(pointer, cudaMemoryTypeDevice, &found)) return note(cudaErrorInvalidValue);
  munmap(found.begin, found.bytes);
  return cudaSuccess;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  if (const cudaError_t error = refuse_ipc()) return error;
  if (event->descriptor < 0) return note(cudaErrorInvalidResourceHandle);
  const SharedHandle shared{cuda_sim::kSharedMagic, getpid(), event->descriptor, sizeof(EventState), 0, event->device};
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &shared, sizeof(shared));
  return cudaSuccess;
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  SharedHandle shared;
  if (const cudaError_t error = read_handle(&handle, &shared)) return error;
  auto* const state = static_cast<EventState*>(cuda_sim::map_shared(shared));
  if (state == nullptr) return note(cudaErrorInvalidResourceHandle);
  *event = new CUevent_st;
  (*event)->state = cuda_sim::own_state(state, -1);
  (*event)->flags = cudaEventInterprocess | cudaEventDisableTiming;
  (*event)->device = cuda_sim::current_device();
  return cudaSuccess;
}
