// Without a switch that adds, the multicast all-reduce says so and leaves the device usable.
#include "kernels/cuda/multicast.h"

#include <gtest/gtest.h>

#include "tests/unit/cuda/device.h"
#include "tests/unit/cuda/device_world.h"

namespace gimbal::test {
namespace {

device::MulticastArguments one_rank(const Report& report, size_t bytes) {
  device::MulticastArguments arguments{};
  arguments.bytes = bytes;
  arguments.nranks = 1;
  arguments.watch = report.watch(1'000'000'000);
  return arguments;
}

TEST(Multicast, IsNotToBeHadOnADeviceWithoutIt) { EXPECT_FALSE(device::has_multicast(0)); }

TEST(Multicast, IsReportedAsUnsupportedByADeviceWithoutIt) {
  const Report report;
  const Stream stream;
  ASSERT_EQ(device::launch_multicast_sum(DType::kFloat32, one_rank(report, 64), 1, 4, stream.get()), cudaSuccess);
  EXPECT_EQ(stream.finish(), cudaSuccess);
  EXPECT_EQ(report.error(), device::DeviceError::kUnsupported);
}

TEST(Multicast, TypesAndSizesThatTheSwitchDoesNotAddAreRefused) {
  const Report report;
  const Stream stream;
  EXPECT_EQ(device::launch_multicast_sum(DType::kInt32, one_rank(report, 64), 1, 4, stream.get()), cudaErrorNotSupported);
  EXPECT_EQ(device::launch_multicast_sum(DType::kFloat32, one_rank(report, 60), 1, 4, stream.get()), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace gimbal::test
