// Memory: every device allocation is a memory file of its own, which other processes can map.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/support/cuda_sim/internal.h"

namespace cuda_sim {
namespace {

struct Table {
  std::mutex mutex;
  std::map<const char*, Allocation> by_begin;
};
Table& table() {
  static auto* const instance = new Table;
  return *instance;
}

size_t bytes_of_device(int device) {
  const std::lock_guard lock(table().mutex);
  size_t bytes = 0;
  for (const auto& [begin, one] : table().by_begin) {
    if (one.type == cudaMemoryTypeDevice && !one.opened && one.device == device) bytes += one.bytes;
  }
  return bytes;
}

cudaError_t allocate_host(void** pointer, size_t bytes) {
  if (const cudaError_t error = ready()) return error;
  constexpr size_t kPage = 4096;
  char* const begin = static_cast<char*>(std::aligned_alloc(kPage, (bytes + kPage) / kPage * kPage));
  if (begin == nullptr) return note(cudaErrorMemoryAllocation);
  add_allocation({begin, bytes, cudaMemoryTypeHost, current_device(), -1, false});
  *pointer = begin;
  return cudaSuccess;
}

}  // namespace

size_t allocated_bytes() {
  size_t bytes = 0;
  for (size_t device = 0; device < visible_devices().size(); ++device) bytes += bytes_of_device(static_cast<int>(device));
  return bytes;
}

bool find_allocation(const void* pointer, Allocation* found) {
  const auto* const address = static_cast<const char*>(pointer);
  const std::lock_guard lock(table().mutex);
  auto next = table().by_begin.upper_bound(address);
  if (next == table().by_begin.begin()) return false;
  *found = std::prev(next)->second;
  return address < found->begin + found->bytes;
}

void add_allocation(const Allocation& allocation) {
  const std::lock_guard lock(table().mutex);
  table().by_begin[allocation.begin] = allocation;
}

bool remove_allocation(const void* begin, cudaMemoryType type, Allocation* removed) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().by_begin.find(static_cast<const char*>(begin));
  if (found == table().by_begin.end() || found->second.type != type) return false;
  *removed = found->second;
  table().by_begin.erase(found);
  return true;
}

int new_memory_file(size_t bytes) {
  const int descriptor = memfd_create("cuda_sim", MFD_CLOEXEC);
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

void* map_file(int descriptor, size_t bytes) {
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return begin == MAP_FAILED ? nullptr : begin;
}

void* map_shared(const SharedHandle& handle) {
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* const begin = map_file(descriptor, handle.bytes);
  close(descriptor);
  return begin;
}

}  // namespace cuda_sim

using cuda_sim::note;

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = nullptr;
  if (const cudaError_t error = cuda_sim::ready()) return error;
  if (const cudaError_t error = cuda_sim::refuse_in_capture()) return error;
  if (bytes == 0) return cudaSuccess;
  const int device = cuda_sim::current_device();
  if (cuda_sim::bytes_of_device(device) + bytes > cuda_sim::settings().memory_bytes) return note(cudaErrorMemoryAllocation);
  const int descriptor = cuda_sim::new_memory_file(bytes);
  if (descriptor < 0) return note(cudaErrorMemoryAllocation);
  char* const begin = static_cast<char*>(cuda_sim::map_file(descriptor, bytes));
  if (begin == nullptr) {
    close(descriptor);
    return note(cudaErrorMemoryAllocation);
  }
  cuda_sim::add_allocation({begin, bytes, cudaMemoryTypeDevice, device, descriptor, false});
  *pointer = begin;
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  if (pointer == nullptr) return cudaSuccess;
  if (const cudaError_t error = cuda_sim::refuse_in_capture()) return error;
  cuda_sim::Allocation freed;
  if (!cuda_sim::find_allocation(pointer, &freed) || freed.opened) return note(cudaErrorInvalidValue);
  // As CUDA does: what is in flight may use it.
  cuda_sim::drain_device(freed.device);
  if (!cuda_sim::remove_allocation(pointer, cudaMemoryTypeDevice, &freed)) return note(cudaErrorInvalidValue);
  munmap(freed.begin, freed.bytes);
  close(freed.descriptor);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return cuda_sim::allocate_host(pointer, bytes); }
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) { return cuda_sim::allocate_host(pointer, bytes); }

cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  cuda_sim::Allocation freed;
  if (!cuda_sim::remove_allocation(pointer, cudaMemoryTypeHost, &freed)) return note(cudaErrorInvalidValue);
  std::free(freed.begin);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  cuda_sim::Allocation known;
  if (cuda_sim::find_allocation(pointer, &known)) return note(cudaErrorHostMemoryAlreadyRegistered);
  cuda_sim::add_allocation({static_cast<char*>(pointer), bytes, cudaMemoryTypeHost, cuda_sim::current_device(), -1, false});
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* pointer) {
  cuda_sim::Allocation known;
  return cuda_sim::remove_allocation(pointer, cudaMemoryTypeHost, &known) ? cudaSuccess
                                                                          : note(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  cuda_sim::Allocation known;
  const bool is_host = cuda_sim::find_allocation(host, &known) && known.type == cudaMemoryTypeHost;
  *device = is_host ? host : nullptr;
  return is_host ? cudaSuccess : note(cudaErrorInvalidValue);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  void* const address = const_cast<void*>(pointer);
  cuda_sim::Allocation known;
  if (!cuda_sim::find_allocation(pointer, &known)) {
    *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, address};
    return cudaSuccess;
  }
  *attributes = {known.type, known.device, address, known.type == cudaMemoryTypeHost ? address : nullptr};
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  *total = cuda_sim::settings().memory_bytes;
  *free = *total - cuda_sim::bytes_of_device(cuda_sim::current_device());
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  return cuda_sim::submit(stream, [=] {
    if (bytes > 0) std::memmove(to, from, bytes);  // of nothing, pointers may be null
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = cuda_sim::refuse_in_capture()) return error;
  if (const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr)) return error;
  return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  return cuda_sim::submit(stream, [=] { std::memset(to, value, bytes); });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  if (const cudaError_t error = cuda_sim::refuse_in_capture()) return error;
  if (const cudaError_t error = cudaMemsetAsync(to, value, bytes, nullptr)) return error;
  return cudaStreamSynchronize(nullptr);
}
