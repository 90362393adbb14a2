// A rank's memory on a CUDA device (--memory cuda): two areas beside those of the host, which hold the inputs and what is
// compared, a stream, and times by the device's own clock.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/cuda.h"
#include "base/status.h"

namespace gimbal::bench {

class DeviceMemory {
 public:
  // On the device whose turn it is: index modulo the number of devices.
  static Result<std::unique_ptr<DeviceMemory>> create(size_t index, size_t area_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::byte* area(size_t index) const { return areas_[index]; }
  [[nodiscard]] CudaStream stream() const { return stream_; }
  [[nodiscard]] std::string describe() const { return cuda_.describe_device(device_); }

  // The first bytes of both areas, from and to the host's. Both wait for the stream.
  Status upload(const std::array<std::byte*, 2>& host, size_t bytes);
  Status download(const std::array<std::byte*, 2>& host, size_t bytes);

  using Body = std::function<Status()>;
  // How long the stream takes for what body enqueues.
  Result<double> time_us(const Body& body);
  // What body enqueues as a graph, which is then launched so many times.
  Result<double> time_graph_us(const Body& body, size_t launches);

 private:
  explicit DeviceMemory(Cuda& cuda) : cuda_(cuda) {}

  Cuda& cuda_;
  int device_ = 0;
  std::array<std::byte*, 2> areas_ = {nullptr, nullptr};
  CudaStream stream_ = nullptr;
  CudaEvent begin_ = nullptr;
  CudaEvent end_ = nullptr;
};

}  // namespace gimbal::bench
