#include "tests/cuda/device_buffer.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace gimbal::test {

void require(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(error));
}

DeviceBuffer::DeviceBuffer(size_t bytes) : bytes_(bytes) {
  require(cudaMalloc(&data_, std::max<size_t>(bytes, 1)), "cudaMalloc");
}

DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

void DeviceBuffer::write(const void* from, size_t bytes) {
  require(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void DeviceBuffer::read(void* to, cudaStream_t after) const {
  require(cudaStreamSynchronize(after), "cudaStreamSynchronize");
  require(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

DeviceStream::DeviceStream() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }

DeviceStream::~DeviceStream() { cudaStreamDestroy(stream_); }

void DeviceStream::synchronize() const { require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

}  // namespace gimbal::test
