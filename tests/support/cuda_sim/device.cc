// Devices and their peers.
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "tests/support/cuda_sim/internal.h"

namespace cuda_sim {
namespace {

thread_local int device_of_thread = 0;

std::mutex& peers_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}
std::set<std::pair<int, int>>& enabled_peers() {
  static auto* const peers = new std::set<std::pair<int, int>>;
  return *peers;
}

cudaError_t check_device(int device) {
  if (const cudaError_t error = ready()) return error;
  const bool exists = device >= 0 && static_cast<size_t>(device) < visible_devices().size();
  return exists ? cudaSuccess : note(cudaErrorInvalidDevice);
}

int bus_of(int device) { return 0x10 + visible_devices()[static_cast<size_t>(device)]; }

}  // namespace

int current_device() { return device_of_thread; }

}  // namespace cuda_sim

using cuda_sim::note;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (const cudaError_t error = cuda_sim::ready()) return error;
  *count = static_cast<int>(cuda_sim::visible_devices().size());
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  *device = cuda_sim::device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = cuda_sim::check_device(device)) return error;
  cuda_sim::device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t error = cuda_sim::check_device(device)) return error;
  const cuda_sim::Settings settings = cuda_sim::settings();
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Simulated GPU");
  properties->uuid.bytes[0] = static_cast<char>(cuda_sim::bus_of(device));
  properties->totalGlobalMem = settings.memory_bytes;
  properties->maxThreadsPerBlock = 1024;
  properties->multiProcessorCount = settings.multiprocessors;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->major = 9;
  properties->l2CacheSize = 1 << 20;
  properties->unifiedAddressing = 1;
  properties->pciBusID = cuda_sim::bus_of(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t error = cuda_sim::check_device(device)) return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = cuda_sim::settings().multiprocessors;
      return cudaSuccess;
    case cudaDevAttrPciBusId:
      *value = cuda_sim::bus_of(device);
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      return cudaSuccess;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
  }
  return note(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
  if (const cudaError_t error = cuda_sim::check_device(device)) return error;
  std::snprintf(id, static_cast<size_t>(size), "0000:%02x:00.0", static_cast<unsigned>(cuda_sim::bus_of(device)));
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  if (const cudaError_t error = cuda_sim::refuse_in_capture()) return error;
  cuda_sim::drain_device(cuda_sim::current_device());
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (const cudaError_t error = cuda_sim::check_device(device)) return error;
  if (const cudaError_t error = cuda_sim::check_device(peer)) return error;
  *can = device != peer && cuda_sim::settings().fault != cuda_sim::Fault::kPeerRefused ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (const cudaError_t error = cuda_sim::check_device(peer)) return error;
  const int device = cuda_sim::current_device();
  if (flags != 0 || peer == device) return note(cudaErrorInvalidDevice);
  if (cuda_sim::settings().fault == cuda_sim::Fault::kPeerRefused) return note(cudaErrorPeerAccessUnsupported);
  const std::lock_guard lock(cuda_sim::peers_mutex());
  const bool is_new = cuda_sim::enabled_peers().insert({device, peer}).second;
  return is_new ? cudaSuccess : note(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  if (const cudaError_t error = cuda_sim::check_device(peer)) return error;
  const std::lock_guard lock(cuda_sim::peers_mutex());
  const bool was_enabled = cuda_sim::enabled_peers().erase({cuda_sim::current_device(), peer}) > 0;
  return was_enabled ? cudaSuccess : note(cudaErrorPeerAccessNotEnabled);
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int source, int destination) {
  if (source == destination) return note(cudaErrorInvalidDevice);
  int can = 0;
  if (const cudaError_t error = cudaDeviceCanAccessPeer(&can, source, destination)) return error;
  *value = attribute == cudaDevP2PAttrPerformanceRank ? 0 : can;
  return cudaSuccess;
}
