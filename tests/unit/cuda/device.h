// Memory, streams and machines of the simulated CUDA runtime for one test.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "tests/support/cuda_sim/control.h"

namespace gimbal::test {

// Zeroed device memory; freed at the end. Simulated, it can be read where it is.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) { cudaMalloc(&data_, size * sizeof(T)); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  [[nodiscard]] T* get() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(size_);
    cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

class Stream {
 public:
  Stream() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  ~Stream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  [[nodiscard]] cudaError_t finish() const { return cudaStreamSynchronize(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

// The process's machine while this lives.
class SimulatedMachine {
 public:
  explicit SimulatedMachine(const cuda_sim::Settings& settings) { cuda_sim::configure(settings); }
  ~SimulatedMachine() {
    cuda_sim::configure({});
    cudaGetLastError();
  }
  SimulatedMachine(const SimulatedMachine&) = delete;
  SimulatedMachine& operator=(const SimulatedMachine&) = delete;
};

}  // namespace gimbal::test
