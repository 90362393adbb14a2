// What machine is shown, and the state of errors that every call begins and ends with.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/cuda_sim/internal.h"

namespace cuda_sim {
namespace {

constexpr std::array<std::pair<std::string_view, Fault>, 6> kFaults = {{{"", Fault::kNone},
                                                                        {"no_driver", Fault::kNoDriver},
                                                                        {"old_driver", Fault::kOldDriver},
                                                                        {"no_device", Fault::kNoDevice},
                                                                        {"peer_refused", Fault::kPeerRefused},
                                                                        {"ipc_refused", Fault::kIpcRefused}}};

template <typename T>
void read(const char* name, T& value) {
  if (const char* text = std::getenv(name)) value = static_cast<T>(std::strtoull(text, nullptr, 10));
}

Settings from_environment() {
  Settings settings;
  read("CUDA_SIM_DEVICES", settings.devices);
  read("CUDA_SIM_MULTIPROCESSORS", settings.multiprocessors);
  read("CUDA_SIM_BLOCKS", settings.blocks_per_multiprocessor);
  read("CUDA_SIM_MEMORY", settings.memory_bytes);
  read("CUDA_SIM_SEED", settings.seed);
  if (const char* text = std::getenv("CUDA_SIM_FAULT")) {
    for (const auto& [name, fault] : kFaults) {
      if (name == text) settings.fault = fault;
    }
  }
  return settings;
}

std::mutex& settings_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

Settings& stored_settings() {
  static auto* const stored = new Settings(from_environment());
  return *stored;
}

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

Settings settings() {
  const std::lock_guard lock(settings_mutex());
  return stored_settings();
}

void configure(const Settings& settings) {
  const std::lock_guard lock(settings_mutex());
  stored_settings() = settings;
}

// As CUDA does: numbers up to the first that is none of a device.
std::vector<int> visible_devices() {
  const int devices = settings().devices;
  std::vector<int> visible;
  const char* const list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int device = 0; device < devices; ++device) visible.push_back(device);
    return visible;
  }
  for (const char* at = list; *at != '\0';) {
    char* end = nullptr;
    const long device = std::strtol(at, &end, 10);
    if (end == at || device < 0 || device >= devices) break;
    visible.push_back(static_cast<int>(device));
    at = *end == ',' ? end + 1 : end;
  }
  return visible;
}

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t ready() {
  static const pid_t process = getpid();
  if (process != getpid()) return note(cudaErrorInitializationError);
  const Fault fault = settings().fault;
  // What CUDA says without a driver, too.
  if (fault == Fault::kNoDriver || fault == Fault::kOldDriver) return note(cudaErrorInsufficientDriver);
  if (fault == Fault::kNoDevice || visible_devices().empty()) return note(cudaErrorNoDevice);
  return cudaSuccess;
}

}  // namespace cuda_sim

cudaError_t cudaGetLastError() { return std::exchange(cuda_sim::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return cuda_sim::last_error; }

cudaError_t cudaDriverGetVersion(int* version) {
  const cuda_sim::Fault fault = cuda_sim::settings().fault;
  *version = fault == cuda_sim::Fault::kNoDriver ? 0 : fault == cuda_sim::Fault::kOldDriver ? 11040 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
#define CUDA_SIM_ERROR(error, text) \
  ErrorText { error, #error, text }
constexpr std::array kErrorTexts = {
    CUDA_SIM_ERROR(cudaSuccess, "no error"),
    CUDA_SIM_ERROR(cudaErrorInvalidValue, "invalid argument"),
    CUDA_SIM_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    CUDA_SIM_ERROR(cudaErrorInitializationError, "initialization error"),
    CUDA_SIM_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    CUDA_SIM_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    CUDA_SIM_ERROR(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    CUDA_SIM_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    CUDA_SIM_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    CUDA_SIM_ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    CUDA_SIM_ERROR(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    CUDA_SIM_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    CUDA_SIM_ERROR(cudaErrorNotReady, "device not ready"),
    CUDA_SIM_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    CUDA_SIM_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    CUDA_SIM_ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    CUDA_SIM_ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    CUDA_SIM_ERROR(cudaErrorNotSupported, "operation not supported"),
    CUDA_SIM_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    CUDA_SIM_ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    CUDA_SIM_ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    CUDA_SIM_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    CUDA_SIM_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    CUDA_SIM_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef CUDA_SIM_ERROR

const ErrorText& find_text(cudaError_t error) {
  for (const ErrorText& known : kErrorTexts) {
    if (known.error == error) return known;
  }
  return kErrorTexts.back();
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return find_text(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return find_text(error).text; }
