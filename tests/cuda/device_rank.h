// A rank that works on a simulated device: its communicator, a stream and buffers of its own.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>

#include "tests/cuda/device_buffer.h"
#include "tests/support/communicator.h"

namespace gimbal::test {

// Of tests that wait for it. Making a communicator and its setup on the device take a part of it, with a sanitizer on a busy
// machine a large one.
inline constexpr int64_t kShortTimeoutMs = kSanitized ? 8000 : 2000;
inline const std::string kShortTimeout = std::to_string(kShortTimeoutMs / 1000) + ".0 s";  // as the library says it

class DeviceRank {
 public:
  explicit DeviceRank(const RankContext& context) : DeviceRank(context, rank_config(context)) {}
  DeviceRank(const RankContext& context, const gimbal_config_t& config) : communicator_(config), context_(context) {}
  // Freeing memory waits for the whole device, and so for streams of other ranks that may wait for this one: not before all
  // ranks have done what they had to.
  ~DeviceRank() {
    stream_.synchronize();
    gimbal_barrier(communicator_.get(), nullptr);
  }
  DeviceRank(const DeviceRank&) = delete;
  DeviceRank& operator=(const DeviceRank&) = delete;

  // Lives as long as the rank.
  template <typename Content>
  DeviceBuffer& buffer(const Content& bytes_or_values) {
    return buffers_.emplace_back(bytes_or_values);
  }

  [[nodiscard]] int32_t rank() const { return context_.rank; }
  [[nodiscard]] int32_t size() const { return context_.size; }
  [[nodiscard]] gimbal_comm_t comm() const { return communicator_.get(); }
  [[nodiscard]] const DeviceStream& stream() const { return stream_; }

 private:
  std::deque<DeviceBuffer> buffers_;
  DeviceStream stream_;  // outlives the communicator
  Communicator communicator_;
  const RankContext context_;
};

inline std::string kind_test_name(const testing::TestParamInfo<RankKind>& info) { return rank_kind_name(info.param); }

// Ranks take turns on the devices that there are.
inline void run_device_ranks(RankKind kind, int32_t size, const std::function<void(DeviceRank&)>& function) {
  run_ranks(kind, size, [&](const RankContext& context) {
    int devices = 0;
    require(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    require(cudaSetDevice(context.rank % devices), "cudaSetDevice");
    DeviceRank rank(context);
    function(rank);
  });
}

}  // namespace gimbal::test
