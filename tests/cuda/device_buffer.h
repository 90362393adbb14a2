// Memory and a stream of a simulated device for the length of a test, seen as vectors of the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "gimbal/gimbal.h"

namespace gimbal::test {

class DeviceBuffer {
 public:
  // On the current device. Throws std::runtime_error.
  explicit DeviceBuffer(size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  template <typename T>
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size() * sizeof(T)) {
    write(values.data(), values.size() * sizeof(T));
  }

  [[nodiscard]] void* data() const { return data_; }
  template <typename T>
  [[nodiscard]] T* at(size_t element) const {
    return static_cast<T*>(data_) + element;
  }
  // Once the stream has done what it was given. (Waiting for the device would wait for other ranks' streams, which wait for
  // this one.)
  template <typename T>
  [[nodiscard]] std::vector<T> read(cudaStream_t after) const {
    std::vector<T> values(bytes_ / sizeof(T));
    read(values.data(), after);
    return values;
  }
  void write(const void* from, size_t bytes);

 private:
  void read(void* to, cudaStream_t after) const;

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class DeviceStream {
 public:
  DeviceStream();
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  operator gimbal_stream_t() const { return stream_; }  // NOLINT(google-explicit-constructor): as callers of the C API see it
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

// Throws std::runtime_error with the error's name.
void require(cudaError_t error, const char* call);

}  // namespace gimbal::test
