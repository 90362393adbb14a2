// One-shot and two-shot all-reduce: the bits of the CPU's sum in rank order, again and again, in graphs, and in trouble.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/reduce.h"
#include "tests/unit/cuda/device_world.h"

namespace gimbal::test {
namespace {

using device::DeviceError;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr Rank kMostRanks = 4;
constexpr unsigned kThreads = 8;
#else
constexpr Rank kMostRanks = 8;
constexpr unsigned kThreads = 16;
#endif
constexpr size_t kMostBytes = 4096;

enum class Shot : uint8_t { kOne, kTwo };

struct Call {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  size_t count = 1;
  uint64_t seed = 1;
  bool in_place = false;
  size_t offset = 0;  // elements between the allocation and the arrays
};

// Any bits.
std::vector<std::byte> random_bytes(uint64_t seed, size_t bytes) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> result(bytes);
  for (std::byte& byte : result) byte = static_cast<std::byte>(random());
  return result;
}

class NativeWorld {
 public:
  NativeWorld(Rank nranks, Shot shot, unsigned blocks = 2)
      : nranks_(nranks), shot_(shot), blocks_(blocks), bytes_(device::native_bytes(nranks, kMostBytes, kMostBytes)) {
    for (Rank r = 0; r < nranks; ++r) ranks_.push_back(std::make_unique<OneRank>(bytes_));
  }

  cudaError_t enqueue(Rank rank, const Call& call, uint64_t tag, uint64_t timeout_ns = 20'000'000'000) {
    const OneRank& one = *ranks_[static_cast<size_t>(rank)];
    const size_t before = call.offset * dtype_size(call.dtype);
    device::NativeArguments arguments{};
    arguments.input = (call.in_place ? one.output.get() : one.input.get()) + before;
    arguments.output = one.output.get() + before;
    arguments.count = call.count;
    for (size_t r = 0; r < ranks_.size(); ++r) arguments.packets[r] = ranks_[r]->packets.get();
    arguments.half_bytes = bytes_ / 2;
    arguments.rank = rank;
    arguments.nranks = nranks_;
    arguments.tag = tag;
    arguments.divisor = call.op == ReduceOp::kAvg ? nranks_ : 1;
    arguments.op = call.op;
    arguments.watch = one.report.watch(timeout_ns);
    const auto launch = shot_ == Shot::kOne ? device::launch_one_shot : device::launch_two_shot;
    return launch(call.dtype, arguments, {blocks_, kThreads}, one.stream.get());
  }

  void set_inputs(const Call& call) {
    for (Rank r = 0; r < nranks_; ++r) {
      const OneRank& one = *ranks_[static_cast<size_t>(r)];
      const auto bytes = input_of(call, r);
      std::byte* const to = (call.in_place ? one.output.get() : one.input.get()) + call.offset * dtype_size(call.dtype);
      cudaMemcpy(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
    }
  }

  // Empty when every rank has the CPU's sum and wrote nothing beside it.
  [[nodiscard]] std::string fault(const Call& call) const {
    const std::vector<std::byte> expected = sum_of(call);
    const auto before = static_cast<std::ptrdiff_t>(call.offset * dtype_size(call.dtype));
    for (Rank r = 0; r < nranks_; ++r) {
      const OneRank& one = *ranks_[static_cast<size_t>(r)];
      if (one.report.error() != DeviceError::kNone) return "rank " + std::to_string(r) + " reports an error";
      const auto output = one.output.read();
      if (!std::equal(expected.begin(), expected.end(), output.begin() + before))
        return "rank " + std::to_string(r) + " differs";
      const auto end = output.begin() + before + static_cast<std::ptrdiff_t>(expected.size());
      if (std::any_of(end, output.end(), [](std::byte byte) { return byte != std::byte{0}; })) return "wrote behind the end";
    }
    return {};
  }

  std::string run(const Call& call) {
    for (const auto& one : ranks_) cudaMemset(one->output.get(), 0, one->output.size());
    set_inputs(call);
    for (Rank r = 0; r < nranks_; ++r) {
      if (enqueue(r, call, call.seed) != cudaSuccess) return "CUDA refused";
    }
    finish();
    const std::string found = fault(call);
    return found.empty() ? ""
                         : found + ": " + std::string(dtype_name(call.dtype)) + " " + std::string(reduce_op_name(call.op)) +
                               " of " + std::to_string(call.count) + " by " + std::to_string(nranks_) + " ranks";
  }

  void finish() const {
    for (const auto& one : ranks_) EXPECT_EQ(one->stream.finish(), cudaSuccess);
  }
  [[nodiscard]] cudaStream_t stream(Rank rank) const { return ranks_[static_cast<size_t>(rank)]->stream.get(); }
  [[nodiscard]] const Report& report(Rank rank) const { return ranks_[static_cast<size_t>(rank)]->report; }

 private:
  struct OneRank {
    explicit OneRank(size_t bytes) : packets(bytes), input(2 * kMostBytes), output(2 * kMostBytes) {}
    DeviceArray<std::byte> packets, input, output;
    Report report;
    Stream stream;
  };

  [[nodiscard]] static std::vector<std::byte> input_of(const Call& call, Rank rank) {
    return random_bytes(call.seed * 100 + static_cast<uint64_t>(rank), call.count * dtype_size(call.dtype));
  }

  [[nodiscard]] std::vector<std::byte> sum_of(const Call& call) const {
    std::vector<std::vector<std::byte>> inputs;
    for (Rank r = 0; r < nranks_; ++r) inputs.push_back(input_of(call, r));
    std::vector<ReduceSource> sources;
    for (const auto& input : inputs) sources.push_back({input.data(), Form::kElement});
    std::vector<std::byte> result(call.count * dtype_size(call.dtype));
    void* const to = result.data();
    const double divisor = call.op == ReduceOp::kAvg ? nranks_ : 1;
    find_reduce(call.dtype, call.op)({.sources = sources, .destinations = {&to, 1}, .count = call.count, .divisor = divisor});
    return result;
  }

  Rank nranks_;
  Shot shot_;
  unsigned blocks_;
  size_t bytes_;
  std::vector<std::unique_ptr<OneRank>> ranks_;
};

class Native : public testing::TestWithParam<Shot> {};
INSTANTIATE_TEST_SUITE_P(Shots, Native, testing::Values(Shot::kOne, Shot::kTwo),
                         [](const auto& parameter) { return parameter.param == Shot::kOne ? "OneShot" : "TwoShot"; });

TEST_P(Native, EveryTypeAndOperationGivesTheBitsOfTheCpusSum) {
  NativeWorld world(3, GetParam());
  uint64_t seed = 1;
  for (int dtype = 0; dtype < kPublicDTypeCount; ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      const Call call{static_cast<DType>(dtype), static_cast<ReduceOp>(op), 75, ++seed, op % 2 == 1, 0};
      if (!is_supported(call.dtype, call.op)) continue;
      ASSERT_EQ(world.run(call), "");
    }
  }
}

TEST_P(Native, EveryNumberOfRanksAndAnyLengthIsServedAgainAndAgain) {
  for (Rank nranks = 1; nranks <= kMostRanks; ++nranks) {
    NativeWorld world(nranks, GetParam());
    uint64_t seed = 0;
    // Long, short and none in turn: packets of earlier operations lie everywhere.
    for (const size_t count : {1000, 1, 7, 0, 64, 3, 500, 2, 0, 0, 33}) {
      ASSERT_EQ(world.run({DType::kFloat32, ReduceOp::kSum, count, ++seed, seed % 2 == 0, seed % 4}), "");
      ASSERT_EQ(world.run({DType::kBfloat16, ReduceOp::kAvg, count, ++seed, seed % 2 == 0, seed % 3}), "");
    }
  }
}

TEST_P(Native, ManyOperationsInFlightDoNotMeet) {
  NativeWorld world(3, GetParam());
  const Call call{.count = 100, .seed = 5};
  world.set_inputs(call);
  for (uint64_t i = 0; i < 30; ++i) {
    for (Rank r = 0; r < 3; ++r) ASSERT_EQ(world.enqueue(r, call, i), cudaSuccess);
  }
  world.finish();
  EXPECT_EQ(world.fault(call), "");
}

TEST_P(Native, ACapturedLaunchIsReplayed) {
  NativeWorld world(2, GetParam());
  const Call call{.count = 100, .seed = 9};
  world.set_inputs(call);
  std::array<cudaGraphExec_t, 2> graphs{};
  for (Rank r = 0; r < 2; ++r) {
    ASSERT_EQ(cudaStreamBeginCapture(world.stream(r), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(world.enqueue(r, call, 1), cudaSuccess);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(world.stream(r), &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&graphs[static_cast<size_t>(r)], graph), cudaSuccess);
    cudaGraphDestroy(graph);
  }
  for (int replay = 0; replay < 10; ++replay) {
    for (Rank r = 0; r < 2; ++r) ASSERT_EQ(cudaGraphLaunch(graphs[static_cast<size_t>(r)], world.stream(r)), cudaSuccess);
  }
  world.finish();
  EXPECT_EQ(world.fault(call), "");
  for (const cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
}

TEST_P(Native, ARankThatNeverLaunchesIsNamedAtTheDeadline) {
  NativeWorld world(3, GetParam());
  const Call call{.count = 10};
  for (Rank r = 0; r < 2; ++r) ASSERT_EQ(world.enqueue(r, call, 1, 50'000'000), cudaSuccess);
  world.finish();
  EXPECT_EQ(world.report(0).error(), DeviceError::kTimeout);
  EXPECT_EQ(world.report(0).get().peer, 2);
  // And whatever is launched then returns at once.
  EXPECT_EQ(world.enqueue(0, call, 2), cudaSuccess);
  world.finish();
}

TEST_P(Native, AnotherOperationOfAPeerIsAMismatch) {
  NativeWorld world(2, GetParam());
  for (Rank r = 0; r < 2; ++r) {
    ASSERT_EQ(world.enqueue(r, {.count = r == 0 ? size_t{300} : size_t{10}}, 40 + static_cast<uint64_t>(r)), cudaSuccess);
  }
  world.finish();
  EXPECT_EQ(world.report(0).error(), DeviceError::kMismatch);
  EXPECT_EQ(world.report(0).get().received_tag, 41U);
}

TEST_P(Native, MoreThanThePacketMemoryHoldsIsRefused) {
  NativeWorld world(2, GetParam());
  EXPECT_EQ(world.enqueue(0, {.count = 100 * kMostBytes}, 1), cudaErrorInvalidValue);
}

TEST_P(Native, MoreRanksThanMultiprocessorsWaitForOneAnother) {
  // All blocks of all ranks fit exactly.
  const SimulatedMachine machine({.multiprocessors = 4, .blocks_per_multiprocessor = 2});
  NativeWorld world(4, GetParam());
  EXPECT_EQ(world.run({.count = 200, .seed = 3}), "");
}

}  // namespace
}  // namespace gimbal::test
