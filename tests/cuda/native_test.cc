// Small all-reduces on device memory as one kernel of each rank, which wait for each other: ranks as threads and as processes,
// replayed in graphs, in groups, and what goes wrong.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/cuda/device_rank.h"
#include "tests/support/cuda_sim/control.h"
#include "tests/support/expect_ok.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/values.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kRanks = 4;

// Must be native: otherwise creating the first collective is an error.
class NativeAllReduce : public testing::TestWithParam<RankKind> {
 protected:
  static void run(int32_t ranks, const std::function<void(DeviceRank&)>& function) {
    run_device_ranks(GetParam(), ranks, function);
  }

 private:
  const ScopedEnvironment path_{"GIMBAL_CUDA_PATH", "native"};
  const ScopedEnvironment mps_{"CUDA_SIM_MPS", "1"};
};

TEST_P(NativeAllReduce, SumsEverySizeInAndOutOfPlaceInOrderWithTheStream) {
  run(kRanks, [](DeviceRank& rank) {
    for (const size_t count : {size_t{1}, size_t{3}, size_t{1000}, size_t{20'011}}) {
      const std::vector<float> ones(count, static_cast<float>(rank.rank() + 1));
      DeviceBuffer& send = rank.buffer(ones);
      DeviceBuffer& recv = rank.buffer(count * sizeof(float));
      for (int round = 0; round < 3; ++round) {
        expect_ok(gimbal_all_reduce(send.data(), recv.data(), count, GIMBAL_FLOAT32, GIMBAL_SUM, rank.comm(), rank.stream()));
        expect_ok(gimbal_all_reduce(recv.data(), recv.data(), count, GIMBAL_FLOAT32, GIMBAL_AVG, rank.comm(), rank.stream()));
      }
      EXPECT_EQ(recv.read<float>(rank.stream().get()), std::vector<float>(count, 10));
    }
  });
}

TEST_P(NativeAllReduce, ServesEveryTypeAndOperation) {
  run(3, [](DeviceRank& rank) {
    constexpr size_t kCount = 67;
    for (int dtype_value = 0; dtype_value < kPublicDTypeCount; ++dtype_value) {
      for (int op_value = 0; op_value < kReduceOpCount; ++op_value) {
        const auto dtype = static_cast<DType>(dtype_value);
        if (!is_supported(dtype, static_cast<ReduceOp>(op_value))) continue;
        std::vector<double> input(kCount, 2);
        for (size_t i = 0; i < kCount; i += 2) input[i] = rank.rank() + 1;
        DeviceBuffer& buffer = rank.buffer(pack(dtype, input));
        expect_ok(gimbal_all_reduce(buffer.data(), buffer.data(), kCount, static_cast<gimbal_dtype_t>(dtype_value),
                                    static_cast<gimbal_op_t>(op_value), rank.comm(), rank.stream()));
        constexpr double kEven[] = {6, 6, 1, 3, 2, 0, 3, 0};
        constexpr double kOdd[] = {6, 8, 2, 2, 2, 2, 2, 2};
        const std::vector<double> result = unpack(dtype, buffer.read<std::byte>(rank.stream().get()));
        for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(result[i], (i % 2 == 0 ? kEven : kOdd)[op_value]) << dtype_name(dtype);
      }
    }
  });
}

TEST_P(NativeAllReduce, IsReplayedInGraphsBetweenOtherCalls) {
  run(2, [](DeviceRank& rank) {
    constexpr size_t kCount = 500;
    DeviceBuffer& buffer = rank.buffer(std::vector<int32_t>(kCount, 1));
    const auto all_reduce = [&] {
      return gimbal_all_reduce(buffer.data(), buffer.data(), kCount, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream());
    };
    expect_ok(all_reduce());
    cudaStream_t stream = rank.stream().get();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin");
    expect_ok(all_reduce());
    expect_ok(all_reduce());
    require(cudaStreamEndCapture(stream, &graph), "end");
    require(cudaGraphInstantiate(&ready, graph, 0), "instantiate");
    for (int round = 0; round < 3; ++round) {
      require(cudaGraphLaunch(ready, stream), "launch");
      expect_ok(all_reduce());
    }
    expect_ok(gimbal_barrier(rank.comm(), stream));
    EXPECT_EQ(buffer.read<int32_t>(stream), std::vector<int32_t>(kCount, 1 << 10));
    require(cudaGraphExecDestroy(ready), "destroy");
    require(cudaGraphDestroy(graph), "destroy");
  });
}

TEST_P(NativeAllReduce, SharesGraphsWithCollectivesBySchedule) {
  run(3, [](DeviceRank& rank) {
    constexpr size_t kCount = 30'000;
    cudaStream_t stream = rank.stream().get();
    DeviceBuffer& send = rank.buffer(std::vector<int32_t>(kCount, rank.rank()));
    DeviceBuffer& recv = rank.buffer(3 * kCount * sizeof(int32_t));
    const auto gather = [&] {
      return gimbal_all_gather(send.data(), recv.data(), kCount, GIMBAL_INT32, rank.comm(), rank.stream());
    };
    expect_ok(gimbal_barrier(rank.comm(), rank.stream()));
    cudaGraph_t graph = nullptr;
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin");
    EXPECT_EQ(gather(), GIMBAL_INVALID_USAGE);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("make the same call once before it"));
    require(cudaStreamEndCapture(stream, &graph), "end");
    require(cudaGraphDestroy(graph), "destroy");

    expect_ok(gather());
    cudaGraphExec_t ready = nullptr;
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin");
    expect_ok(gather());
    expect_ok(gimbal_all_reduce(send.data(), send.data(), kCount, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream()));
    require(cudaStreamEndCapture(stream, &graph), "end");
    require(cudaGraphInstantiate(&ready, graph, 0), "instantiate");
    for (int round = 0; round < 2; ++round) require(cudaGraphLaunch(ready, stream), "launch");
    // The second round gathers the first one's sum, 0 + 1 + 2, of all ranks.
    EXPECT_EQ(recv.read<int32_t>(stream), std::vector<int32_t>(3 * kCount, 3));
    require(cudaGraphExecDestroy(ready), "destroy");
    require(cudaGraphDestroy(graph), "destroy");
  });
}

TEST_P(NativeAllReduce, CallsOnSeveralStreamsStayInOrder) {
  run(2, [](DeviceRank& rank) {
    const DeviceStream other;
    DeviceBuffer& first = rank.buffer(std::vector<int32_t>(1000, 1));
    DeviceBuffer& second = rank.buffer(std::vector<int32_t>(1000, 3));
    for (int round = 0; round < 10; ++round) {
      expect_ok(gimbal_all_reduce(first.data(), first.data(), 1000, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream()));
      expect_ok(gimbal_all_reduce(second.data(), second.data(), 1000, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), other));
    }
    gimbal_request_t request = nullptr;
    expect_ok(gimbal_all_reduce_start(first.data(), first.data(), 1000, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream(),
                                      &request));
    expect_ok(gimbal_wait(&request));
    EXPECT_EQ(first.read<int32_t>(rank.stream().get()), std::vector<int32_t>(1000, 1 << 11));
    EXPECT_EQ(second.read<int32_t>(other.get()), std::vector<int32_t>(1000, 3 << 10));
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, NativeAllReduce, testing::ValuesIn(rank_kinds()), kind_test_name);

// One thread has both ranks' communicators: made by two threads, used by one.
TEST(NativeGroup, OfOneThreadOverSeveralCommunicatorsDoesNotDeadlock) {
  cuda_sim::configure({.devices = 2});
  const ScopedEnvironment path("GIMBAL_CUDA_PATH", "native");
  std::unique_ptr<Communicator> communicators[2];
  run_ranks(RankKind::kThreads, 2,
            [&](const RankContext& context) { communicators[context.rank] = std::make_unique<Communicator>(context); });
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  std::vector<std::unique_ptr<DeviceStream>> streams;
  for (int device = 0; device < 2; ++device) {
    require(cudaSetDevice(device), "cudaSetDevice");
    buffers.push_back(std::make_unique<DeviceBuffer>(std::vector<int32_t>(1000, device + 1)));
    streams.push_back(std::make_unique<DeviceStream>());
  }
  for (int round = 0; round < 2; ++round) {
    expect_ok(gimbal_group_start());
    for (int device = 0; device < 2; ++device) {
      expect_ok(gimbal_all_reduce(buffers[device]->data(), buffers[device]->data(), 1000, GIMBAL_INT32, GIMBAL_SUM,
                                  communicators[device]->get(), *streams[device]));
    }
    expect_ok(gimbal_group_end());
  }
  for (int device = 0; device < 2; ++device) {
    EXPECT_EQ(buffers[device]->read<int32_t>(streams[device]->get()), std::vector<int32_t>(1000, 6));
  }
  communicators[0].reset();
  communicators[1].reset();
  cuda_sim::configure({});
}

TEST(NativeTrouble, ARankThatNeverLaunchesIsNamedAndTheKernelReturns) {
  run_ranks(RankKind::kThreads, 2, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.timeout_ms = kShortTimeoutMs;
    DeviceRank rank(context, config);
    DeviceBuffer& buffer = rank.buffer(std::vector<int32_t>(100, 1));
    const auto all_reduce = [&] {
      return gimbal_all_reduce(buffer.data(), buffer.data(), 100, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream());
    };
    expect_ok(all_reduce());
    rank.stream().synchronize();
    if (rank.rank() == 0) {
      expect_ok(all_reduce());
      rank.stream().synchronize();
    }
    while (gimbal_comm_status(rank.comm()) == GIMBAL_OK) std::this_thread::yield();
    EXPECT_EQ(gimbal_comm_status(rank.comm()), GIMBAL_TIMEOUT);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("for rank 1"));
  });
}

TEST(NativeTrouble, AReplayThatOthersDoNotJoinEndsAtItsDeadline) {
  run_ranks(RankKind::kThreads, 2, [](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.timeout_ms = kShortTimeoutMs;
    DeviceRank rank(context, config);
    DeviceBuffer& buffer = rank.buffer(std::vector<int32_t>(100, 1));
    const auto all_reduce = [&] {
      return gimbal_all_reduce(buffer.data(), buffer.data(), 100, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream());
    };
    expect_ok(all_reduce());
    rank.stream().synchronize();
    if (rank.rank() == 0) {
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t ready = nullptr;
      require(cudaStreamBeginCapture(rank.stream().get(), cudaStreamCaptureModeThreadLocal), "begin");
      expect_ok(all_reduce());
      require(cudaStreamEndCapture(rank.stream().get(), &graph), "end");
      require(cudaGraphInstantiate(&ready, graph, 0), "instantiate");
      require(cudaGraphLaunch(ready, rank.stream().get()), "launch");
      rank.stream().synchronize();
      EXPECT_EQ(gimbal_comm_status(rank.comm()), GIMBAL_TIMEOUT);
      EXPECT_THAT(gimbal_last_error(), HasSubstr("the kernel waited " + std::to_string(kShortTimeoutMs) + " ms for rank 1"));
      EXPECT_EQ(all_reduce(), GIMBAL_TIMEOUT);
      require(cudaGraphExecDestroy(ready), "destroy");
      require(cudaGraphDestroy(graph), "destroy");
    }
    while (gimbal_comm_status(rank.comm()) == GIMBAL_OK) std::this_thread::yield();
  });
}

TEST(NativeTrouble, DifferentCallsAreAMismatchWithBothSides) {
  run_ranks(RankKind::kThreads, 2, [](const RankContext& context) {
    DeviceRank rank(context);
    DeviceBuffer& buffer = rank.buffer(std::vector<int32_t>(1000, 1));
    const size_t count = rank.rank() == 0 ? 1000 : 500;
    expect_ok(gimbal_barrier(rank.comm(), rank.stream()));
    expect_ok(gimbal_all_reduce(buffer.data(), buffer.data(), count, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream()));
    rank.stream().synchronize();
    gimbal_status_t status = GIMBAL_OK;
    while ((status = gimbal_barrier(rank.comm(), nullptr)) == GIMBAL_OK) std::this_thread::yield();
    EXPECT_EQ(status, GIMBAL_MISMATCH);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("count 1000"), HasSubstr("count 500"), HasSubstr("device memory")));
  });
}

TEST(NativeTrouble, AbortEndsARunningKernel) {
  run_ranks(RankKind::kThreads, 2, [](const RankContext& context) {
    DeviceRank rank(context);
    DeviceBuffer& buffer = rank.buffer(std::vector<int32_t>(100, 1));
    expect_ok(gimbal_barrier(rank.comm(), rank.stream()));
    rank.stream().synchronize();
    if (rank.rank() == 0) {
      expect_ok(gimbal_all_reduce(buffer.data(), buffer.data(), 100, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream()));
      expect_ok(gimbal_comm_abort(rank.comm()));
      rank.stream().synchronize();
    }
    while (gimbal_comm_status(rank.comm()) == GIMBAL_OK) std::this_thread::yield();
    EXPECT_EQ(gimbal_comm_status(rank.comm()), GIMBAL_ABORTED);
  });
}

// What the machine refuses: one warning, and everything goes by way of the host; by order it is an error.
void expect_staged(const std::string& path, const std::string& reason) {
  const ScopedEnvironment chosen("GIMBAL_CUDA_PATH", path);
  run_device_ranks(RankKind::kThreads, 2, [&](DeviceRank& rank) {
    DeviceBuffer& buffer = rank.buffer(std::vector<int32_t>(100, 1));
    const gimbal_status_t status =
        gimbal_all_reduce(buffer.data(), buffer.data(), 100, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream());
    if (path == "native") {
      EXPECT_EQ(status, GIMBAL_UNSUPPORTED);
      EXPECT_THAT(gimbal_last_error(), HasSubstr(reason));
    } else {
      expect_ok(status);
      EXPECT_EQ(buffer.read<int32_t>(rank.stream().get()), std::vector<int32_t>(100, 2));
    }
  });
}

TEST(NativeTrouble, RefusedPeerAccessIsNamedAndGoneAround) {
  cuda_sim::configure({.devices = 2, .fault = cuda_sim::Fault::kPeerRefused});
  for (const char* path : {"native", "auto"}) expect_staged(path, "cudaDeviceEnablePeerAccess");
  cuda_sim::configure({});
}

TEST(NativeTrouble, MoreWaitingBlocksThanTheDeviceHoldsAreCounted) {
  cuda_sim::configure({.multiprocessors = 1, .blocks_per_multiprocessor = 1});
  for (const char* path : {"native", "auto"})
    expect_staged(path, "holds 1 waiting blocks at a time: at most 1 ranks fit, and 2");
  cuda_sim::configure({});
}

TEST(NativeTrouble, AStrictJobIsToldInsteadOfGoingAround) {
  cuda_sim::configure({.devices = 2, .fault = cuda_sim::Fault::kPeerRefused});
  const ScopedEnvironment strict("GIMBAL_STRICT", "1");
  run_device_ranks(RankKind::kThreads, 2, [&](DeviceRank& rank) {
    EXPECT_EQ(gimbal_barrier(rank.comm(), rank.stream()), GIMBAL_UNSUPPORTED);
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("GIMBAL_STRICT=1"), HasSubstr("cudaDeviceEnablePeerAccess")));
  });
  cuda_sim::configure({});
}

// Without MPS processes take turns: kernels must not wait for one another.
TEST(NativeTrouble, ProcessesThatShareADeviceDoNotWaitOnIt_processes) {
  const ScopedEnvironment mps("CUDA_SIM_MPS", std::nullopt);
  for (const char* path : {"native", "auto"}) {
    const ScopedEnvironment chosen("GIMBAL_CUDA_PATH", path);
    run_device_ranks(RankKind::kProcesses, 2, [&](DeviceRank& rank) {
      DeviceBuffer& buffer = rank.buffer(std::vector<int32_t>(100, 1));
      const gimbal_status_t status =
          gimbal_all_reduce(buffer.data(), buffer.data(), 100, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream());
      EXPECT_EQ(status, std::strcmp(path, "native") == 0 ? GIMBAL_UNSUPPORTED : GIMBAL_OK);
      if (status == GIMBAL_OK) {
        EXPECT_EQ(buffer.read<int32_t>(rank.stream().get()), std::vector<int32_t>(100, 2));
      }
    });
  }
}

}  // namespace
}  // namespace gimbal::test
