// What goes wrong with devices: each is one sentence with the remedy, within the deadline, and leaves the device usable.
#include <gmock/gmock.h>

#include <atomic>

#include "tests/cuda/device_rank.h"
#include "tests/support/cuda_sim/control.h"
#include "tests/support/expect_ok.h"
#include "tests/support/scoped_environment.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Of calls that go by way of the host; native_test.cc has the others.
class DeviceTrouble : public testing::Test {
  const ScopedEnvironment path_{"GIMBAL_CUDA_PATH", "staged"};
};

constexpr size_t kCount = 1000;

gimbal_status_t all_reduce(DeviceRank& rank, const DeviceBuffer& buffer, size_t count = kCount) {
  return gimbal_all_reduce(buffer.data(), buffer.data(), count, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream());
}

// A communicator's first collective on device memory waits for all ranks.
void meet(DeviceRank& rank) {
  expect_ok(gimbal_barrier(rank.comm(), rank.stream()));
  rank.stream().synchronize();
}

void run_devices(int devices, int32_t ranks, const std::function<void(DeviceRank&)>& function) {
  cuda_sim::configure({.devices = devices});
  run_device_ranks(RankKind::kThreads, ranks, function);
  cuda_sim::configure({});
}

TEST_F(DeviceTrouble, HostAndDeviceMemoryInOneCallAreNamed) {
  run_devices(1, 1, [](DeviceRank& rank) {
    const DeviceBuffer& device = rank.buffer(kCount * 4);
    std::vector<int32_t> host(kCount);
    const auto call = [&](const void* send, void* recv) {
      return gimbal_all_reduce(send, recv, kCount, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream());
    };
    EXPECT_EQ(call(host.data(), device.data()), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("send is host memory"), HasSubstr("recv is memory of device 0")));
    EXPECT_EQ(call(device.data(), host.data()), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("send is memory of device 0"), HasSubstr("recv is host memory")));
    EXPECT_EQ(call(host.data(), host.data()), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("stream is not NULL, but the buffers are host memory"));
    expect_ok(call(device.data(), device.data()));
  });
}

TEST_F(DeviceTrouble, AStreamOrABufferOfAnotherDeviceIsNamed) {
  run_devices(2, 1, [](DeviceRank& rank) {
    const DeviceBuffer& first = rank.buffer(kCount * 4);
    require(cudaSetDevice(1), "cudaSetDevice");
    const DeviceBuffer& second = rank.buffer(kCount * 4);
    EXPECT_EQ(all_reduce(rank, second), GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("the stream belongs to device 0"), HasSubstr("memory of device 1")));
    EXPECT_EQ(gimbal_all_reduce(first.data(), second.data(), kCount, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream()),
              GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("send is memory of device 0"), HasSubstr("recv is memory of device 1")));
  });
}

TEST_F(DeviceTrouble, ACommunicatorStaysOnItsDevice) {
  run_devices(2, 2, [](DeviceRank& rank) {
    require(cudaSetDevice(0), "cudaSetDevice");
    const DeviceStream stream;
    const DeviceBuffer& first = rank.buffer(kCount * 4);
    expect_ok(gimbal_broadcast(first.data(), kCount, GIMBAL_INT32, 0, rank.comm(), stream));
    stream.synchronize();
    require(cudaSetDevice(1), "cudaSetDevice");
    const DeviceStream other;
    const DeviceBuffer& second = rank.buffer(kCount * 4);
    EXPECT_EQ(gimbal_broadcast(second.data(), kCount, GIMBAL_INT32, 0, rank.comm(), other), GIMBAL_INVALID_USAGE);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("has worked on device 0"));
  });
}

TEST_F(DeviceTrouble, CallsThatGoByTheHostRefuseToBeCaptured) {
  run_devices(1, 2, [](DeviceRank& rank) {
    meet(rank);
    const DeviceBuffer& buffer = rank.buffer(std::vector<int32_t>(kCount, 1));
    require(cudaStreamBeginCapture(rank.stream().get(), cudaStreamCaptureModeThreadLocal), "begin");
    EXPECT_EQ(gimbal_broadcast(buffer.data(), kCount, GIMBAL_INT32, 0, rank.comm(), rank.stream()), GIMBAL_INVALID_USAGE);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("broadcast"), HasSubstr("outside the capture")));
    cudaGraph_t graph = nullptr;
    require(cudaStreamEndCapture(rank.stream().get(), &graph), "end");
    require(cudaGraphDestroy(graph), "destroy");
    expect_ok(all_reduce(rank, buffer));
    EXPECT_EQ(buffer.read<int32_t>(rank.stream().get()), std::vector<int32_t>(kCount, 2));
  });
}

TEST_F(DeviceTrouble, DifferentCallsAreAMismatchOnEveryRankAndStreamsGoOn) {
  run_devices(1, 2, [](DeviceRank& rank) {
    meet(rank);
    const DeviceBuffer& buffer = rank.buffer(kCount * 4);
    expect_ok(all_reduce(rank, buffer, rank.rank() == 0 ? kCount : kCount / 2));
    rank.stream().synchronize();
    EXPECT_EQ(gimbal_comm_status(rank.comm()), GIMBAL_MISMATCH);
    EXPECT_EQ(all_reduce(rank, buffer), GIMBAL_MISMATCH);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("count 1000"), HasSubstr("count 500"), HasSubstr("device memory")));
    require(cudaMemsetAsync(buffer.data(), 1, kCount * 4, rank.stream().get()), "memset");
    rank.stream().synchronize();
  });
}

// Holds a stream up until it is let go, as a kernel that takes long would.
class HeldStream {
 public:
  explicit HeldStream(const DeviceStream& stream) {
    require(cudaLaunchHostFunc(
                stream.get(), [](void* held) { static_cast<HeldStream*>(held)->wait(); }, this),
            "host");
  }
  void let_go() {
    go_on_.store(true);
    go_on_.notify_all();
  }

 private:
  void wait() { go_on_.wait(false); }
  std::atomic<bool> go_on_{false};
};

TEST_F(DeviceTrouble, ARankThatNeverLaunchesIsNamedAtTheDeadlineAndStreamsGoOn) {
  cuda_sim::configure({});
  run_ranks(RankKind::kThreads, 2, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.timeout_ms = kShortTimeoutMs;
    DeviceRank rank(context, config);
    meet(rank);
    const DeviceBuffer& buffer = rank.buffer(kCount * 4);
    if (rank.rank() == 0) {
      expect_ok(all_reduce(rank, buffer));
      rank.stream().synchronize();
    }
    while (gimbal_comm_status(rank.comm()) == GIMBAL_OK) std::this_thread::yield();
    EXPECT_EQ(gimbal_comm_status(rank.comm()), GIMBAL_TIMEOUT);
    EXPECT_THAT(gimbal_last_error(),
                AllOf(HasSubstr("rank 0: waited " + kShortTimeout + " for rank 1"), HasSubstr("device memory")));
  });
}

TEST_F(DeviceTrouble, AStreamThatDoesNotComeToTheCallIsNotBlamedOnPeers) {
  cuda_sim::configure({});
  run_ranks(RankKind::kThreads, 2, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    if (context.rank == 1)
      config.timeout_ms = kShortTimeoutMs;  // the other one's, which is in time, would come first now and then
    DeviceRank rank(context, config);
    meet(rank);
    const DeviceBuffer& buffer = rank.buffer(kCount * 4);
    if (rank.rank() == 1) {
      HeldStream held(rank.stream());
      expect_ok(all_reduce(rank, buffer));
      while (gimbal_comm_status(rank.comm()) == GIMBAL_OK) std::this_thread::yield();
      EXPECT_THAT(gimbal_last_error(), HasSubstr("rank 1: waited " + kShortTimeout + " for this rank's own stream"));
      held.let_go();
      rank.stream().synchronize();
    } else {
      expect_ok(all_reduce(rank, buffer));
      rank.stream().synchronize();
      EXPECT_EQ(gimbal_comm_status(rank.comm()), GIMBAL_TIMEOUT);
    }
  });
}

TEST_F(DeviceTrouble, AbortLetsStreamsGoOn) {
  run_devices(1, 2, [](DeviceRank& rank) {
    meet(rank);
    const DeviceBuffer& buffer = rank.buffer(kCount * 4);
    if (rank.rank() == 0) {
      expect_ok(all_reduce(rank, buffer));
      expect_ok(gimbal_comm_abort(rank.comm()));
    }
    rank.stream().synchronize();
    while (gimbal_comm_status(rank.comm()) == GIMBAL_OK) std::this_thread::yield();
    EXPECT_EQ(gimbal_comm_status(rank.comm()), GIMBAL_ABORTED);
  });
}

TEST_F(DeviceTrouble, DestroyingACommunicatorLetsItsStreamsGoOn) {
  run_devices(1, 2, [](DeviceRank& rank) {
    meet(rank);
    const DeviceBuffer& buffer = rank.buffer(kCount * 4);
    if (rank.rank() == 0) {
      expect_ok(all_reduce(rank, buffer));
      expect_ok(gimbal_comm_destroy(rank.comm()));
      rank.stream().synchronize();
    }
  });
}

// Each in a process of its own: what the machine has is looked at once.
struct Unusable {
  std::string name;
  cuda_sim::Fault fault;
  std::string visible_devices;
  std::string sentence;
};

class UnusableDevices : public testing::TestWithParam<Unusable> {};

TEST_P(UnusableDevices, AreOneSentenceAndLeaveHostMemoryWorking) {
  const Unusable unusable = GetParam();
  run_ranks(RankKind::kProcesses, 2, [&](const RankContext& context) {
    if (!unusable.visible_devices.empty()) setenv("CUDA_VISIBLE_DEVICES", unusable.visible_devices.c_str(), 1);
    cuda_sim::configure({.fault = unusable.fault});
    Communicator communicator(context);
    EXPECT_EQ(gimbal_barrier(communicator.get(), cudaStreamPerThread), GIMBAL_UNSUPPORTED);
    EXPECT_THAT(gimbal_last_error(), HasSubstr(unusable.sentence));
    int32_t value = 1;
    communicator.all_reduce(&value, &value, 1, GIMBAL_INT32, GIMBAL_SUM);
    EXPECT_EQ(value, 2);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Cases, UnusableDevices,
    testing::Values(Unusable{"processes_no_driver", cuda_sim::Fault::kNoDriver, "", "no CUDA driver"},
                    Unusable{"processes_old_driver", cuda_sim::Fault::kOldDriver, "", "update the driver"},
                    Unusable{"processes_no_device", cuda_sim::Fault::kNoDevice, "", "the CUDA driver shows no device"},
                    Unusable{"processes_wrong_visible", cuda_sim::Fault::kNone, "7", "CUDA_VISIBLE_DEVICES=7 names no device"}),
    [](const testing::TestParamInfo<Unusable>& tested) { return tested.param.name; });

}  // namespace
}  // namespace gimbal::test
