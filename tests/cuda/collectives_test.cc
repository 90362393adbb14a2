// Every collective of the C API on device memory: in order with the stream, in and out of place, in one piece and in several,
// ranks as threads and as processes that share devices.
#include <gmock/gmock.h>

#include "tests/cuda/device_rank.h"
#include "tests/support/expect_ok.h"
#include "tests/support/scoped_environment.h"

namespace gimbal::test {
namespace {

constexpr int32_t kRanks = 3;
// More pieces than a lane has slots, where a piece holds a part of six blocks.
constexpr size_t kManyPieces = kSanitized ? 300'000 : 1'200'000;
// More slices than a link has slots; kernels on simulated devices take their time.
constexpr size_t kManySlices = kSanitized ? 40'000 : 150'000;

// By way of the host, and by kernels that reach each other's memory.
struct Way {
  RankKind ranks;
  std::string path;
};

class DeviceCollectives : public testing::TestWithParam<Way> {
 protected:
  static void run(const std::function<void(DeviceRank&)>& function) { run_device_ranks(GetParam().ranks, kRanks, function); }
  static std::vector<size_t> counts() { return {1, 1000, largest()}; }
  static size_t largest() { return GetParam().path == "staged" ? kManyPieces : kManySlices; }

 private:
  const ScopedEnvironment path_{"GIMBAL_CUDA_PATH", GetParam().path};
  const ScopedEnvironment mps_{"CUDA_SIM_MPS", "1"};
};

std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (const RankKind ranks : rank_kinds()) {
    for (const char* path : {"staged", "native"}) ways.push_back({ranks, path});
  }
  return ways;
}

std::vector<int32_t> values_of(int32_t rank, size_t count) {
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i % 10'007 * 7 + static_cast<size_t>(rank) * 100'000);
  return values;
}

std::vector<int32_t> sums(size_t count) {
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(kRanks * (i % 10'007 * 7) + 300'000);
  return values;
}

std::vector<int32_t> all_values(size_t count) {
  std::vector<int32_t> values;
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    const std::vector<int32_t> one = values_of(rank, count);
    values.insert(values.end(), one.begin(), one.end());
  }
  return values;
}

std::vector<int32_t> block(const std::vector<int32_t>& values, int32_t rank, size_t count) {
  const auto begin = values.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(rank) * count);
  return {begin, begin + static_cast<ptrdiff_t>(count)};
}

TEST_P(DeviceCollectives, AllReduceComesAfterWhatTheStreamDidBefore) {
  run([](DeviceRank& rank) {
    for (const size_t count : counts()) {
      const std::vector<int32_t> input = values_of(rank.rank(), count);
      DeviceBuffer& send = rank.buffer(input);
      DeviceBuffer& recv = rank.buffer(count * sizeof(int32_t));
      DeviceBuffer& earlier = rank.buffer(count * sizeof(int32_t));
      // The input arrives on the stream only after the call was made, and the output is taken by it.
      require(cudaMemcpyAsync(earlier.data(), send.data(), count * 4, cudaMemcpyDeviceToDevice, rank.stream().get()), "copy");
      require(cudaMemsetAsync(send.data(), 0, count * 4, rank.stream().get()), "memset");
      expect_ok(gimbal_all_reduce(earlier.data(), recv.data(), count, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream()));
      require(cudaMemcpyAsync(send.data(), recv.data(), count * 4, cudaMemcpyDeviceToDevice, rank.stream().get()), "copy");
      expect_ok(gimbal_all_reduce(earlier.data(), earlier.data(), count, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream()));
      EXPECT_TRUE(send.read<int32_t>(rank.stream().get()) == sums(count)) << count;
      EXPECT_TRUE(earlier.read<int32_t>(rank.stream().get()) == sums(count)) << count;
    }
  });
}

TEST_P(DeviceCollectives, RootedCollectivesServeEveryRoot) {
  run([](DeviceRank& rank) {
    for (const size_t count : counts()) {
      for (int32_t root = 0; root < kRanks; ++root) {
        const bool is_root = rank.rank() == root;
        DeviceBuffer& send = rank.buffer(values_of(rank.rank(), count));
        DeviceBuffer& recv = rank.buffer(std::vector<int32_t>(kRanks * count, -1));
        expect_ok(gimbal_reduce(send.data(), recv.data(), count, GIMBAL_INT32, GIMBAL_SUM, root, rank.comm(), rank.stream()));
        const std::vector<int32_t> reduced = recv.read<int32_t>(rank.stream().get());
        EXPECT_TRUE(block(reduced, 0, count) == (is_root ? sums(count) : std::vector<int32_t>(count, -1))) << count;

        expect_ok(gimbal_gather(send.data(), recv.data(), count, GIMBAL_INT32, root, rank.comm(), rank.stream()));
        if (is_root) {
          EXPECT_TRUE(recv.read<int32_t>(rank.stream().get()) == all_values(count)) << count;
        }

        DeviceBuffer& all = rank.buffer(values_of(root, kRanks * count));
        expect_ok(gimbal_scatter(all.data(), recv.data(), count, GIMBAL_INT32, root, rank.comm(), rank.stream()));
        EXPECT_TRUE(block(recv.read<int32_t>(rank.stream().get()), 0, count) ==
                    block(values_of(root, kRanks * count), rank.rank(), count))
            << count;

        expect_ok(gimbal_broadcast(send.data(), count, GIMBAL_INT32, root, rank.comm(), rank.stream()));
        EXPECT_TRUE(send.read<int32_t>(rank.stream().get()) == values_of(root, count)) << count;
      }
    }
  });
}

TEST_P(DeviceCollectives, BlocksGoWhereTheyBelongInAndOutOfPlace) {
  run([](DeviceRank& rank) {
    for (const size_t count : counts()) {
      const size_t own = static_cast<size_t>(rank.rank()) * count;
      DeviceBuffer& one = rank.buffer(values_of(rank.rank(), count));
      DeviceBuffer& many = rank.buffer(values_of(rank.rank(), kRanks * count));
      DeviceBuffer& recv = rank.buffer(kRanks * count * sizeof(int32_t));
      expect_ok(gimbal_all_to_all(many.data(), recv.data(), count, GIMBAL_INT32, rank.comm(), rank.stream()));
      const std::vector<int32_t> exchanged = recv.read<int32_t>(rank.stream().get());
      for (int32_t from = 0; from < kRanks; ++from) {
        EXPECT_TRUE(block(exchanged, from, count) == block(values_of(from, kRanks * count), rank.rank(), count)) << count;
      }
      expect_ok(gimbal_all_gather(one.data(), recv.data(), count, GIMBAL_INT32, rank.comm(), rank.stream()));
      EXPECT_TRUE(recv.read<int32_t>(rank.stream().get()) == all_values(count)) << count;
      expect_ok(gimbal_all_gather(recv.at<int32_t>(own), recv.data(), count, GIMBAL_INT32, rank.comm(), rank.stream()));
      EXPECT_TRUE(recv.read<int32_t>(rank.stream().get()) == all_values(count)) << count;

      expect_ok(gimbal_reduce_scatter(many.data(), one.data(), count, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream()));
      std::vector<int32_t> expected(count);
      for (size_t i = 0; i < count; ++i) expected[i] = static_cast<int32_t>(kRanks * ((own + i) % 10'007 * 7) + 300'000);
      EXPECT_TRUE(one.read<int32_t>(rank.stream().get()) == expected) << count;
      expect_ok(gimbal_reduce_scatter(many.data(), many.at<int32_t>(own), count, GIMBAL_INT32, GIMBAL_SUM, rank.comm(),
                                      rank.stream()));
      EXPECT_TRUE(block(many.read<int32_t>(rank.stream().get()), rank.rank(), count) == expected) << count;
    }
  });
}

TEST_P(DeviceCollectives, BlocksOfUnequalSizeLeaveGapsAlone) {
  run([](DeviceRank& rank) {
    const size_t counts[kRanks] = {4, 0, 70'000};
    const size_t displacements[kRanks] = {70'010, 3, 5};
    DeviceBuffer& send = rank.buffer(values_of(rank.rank(), counts[rank.rank()]));
    DeviceBuffer& spread = rank.buffer(std::vector<int32_t>(70'020, -1));
    expect_ok(gimbal_all_gather_v(send.data(), counts[rank.rank()], spread.data(), counts, displacements, GIMBAL_INT32,
                                  rank.comm(), rank.stream()));
    std::vector<int32_t> expected(70'020, -1);
    for (size_t i = 0; i < 4; ++i) expected[70'010 + i] = values_of(0, 4)[i];
    const std::vector<int32_t> last = values_of(2, 70'000);
    std::copy(last.begin(), last.end(), expected.begin() + 5);
    EXPECT_TRUE(spread.read<int32_t>(rank.stream().get()) == expected);

    // Rank r sends r + 1 elements to each rank, 20 apart.
    size_t send_counts[kRanks];
    size_t recv_counts[kRanks];
    size_t places[kRanks];
    for (int32_t peer = 0; peer < kRanks; ++peer) {
      send_counts[peer] = static_cast<size_t>(rank.rank()) + 1;
      recv_counts[peer] = static_cast<size_t>(peer) + 1;
      places[peer] = static_cast<size_t>(peer) * 20 + 1;
    }
    DeviceBuffer& blocks = rank.buffer(values_of(rank.rank(), 60));
    DeviceBuffer& recv = rank.buffer(std::vector<int32_t>(60, -1));
    expect_ok(gimbal_all_to_all_v(blocks.data(), send_counts, places, recv.data(), recv_counts, places, GIMBAL_INT32,
                                  rank.comm(), rank.stream()));
    expected.assign(60, -1);
    for (int32_t from = 0; from < kRanks; ++from) {
      const std::vector<int32_t> theirs = values_of(from, 60);
      for (size_t i = 0; i < recv_counts[from]; ++i) expected[places[from] + i] = theirs[places[rank.rank()] + i];
    }
    EXPECT_TRUE(recv.read<int32_t>(rank.stream().get()) == expected);
  });
}

TEST_P(DeviceCollectives, GroupedMessagesAndStartedCallsOfOneStreamDoNotWaitForEachOther) {
  run([](DeviceRank& rank) {
    const size_t count = largest();
    const int32_t next = (rank.rank() + 1) % kRanks;
    const int32_t previous = (rank.rank() + kRanks - 1) % kRanks;
    DeviceBuffer& send = rank.buffer(values_of(rank.rank(), count));
    DeviceBuffer& recv = rank.buffer(count * sizeof(int32_t));
    DeviceBuffer& reduced = rank.buffer(count * sizeof(int32_t));
    gimbal_request_t request = nullptr;
    expect_ok(gimbal_group_start());
    expect_ok(gimbal_send(send.data(), count, GIMBAL_INT32, next, rank.comm(), rank.stream()));
    expect_ok(gimbal_recv(recv.data(), count, GIMBAL_INT32, previous, rank.comm(), rank.stream()));
    expect_ok(gimbal_all_reduce_start(send.data(), reduced.data(), count, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream(),
                                      &request));
    expect_ok(gimbal_group_end());
    expect_ok(gimbal_wait(&request));
    EXPECT_TRUE(reduced.read<int32_t>(rank.stream().get()) == sums(count));
    EXPECT_TRUE(recv.read<int32_t>(rank.stream().get()) == values_of(previous, count));
  });
}

TEST_P(DeviceCollectives, HostAndDeviceCallsAlternate) {
  run([](DeviceRank& rank) {
    DeviceBuffer& send = rank.buffer(values_of(rank.rank(), 1000));
    for (int round = 0; round < 20; ++round) {
      DeviceBuffer& recv = rank.buffer(1000 * sizeof(int32_t));
      expect_ok(gimbal_all_reduce(send.data(), recv.data(), 1000, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream()));
      std::vector<int32_t> host = values_of(rank.rank(), 1000);
      expect_ok(gimbal_all_reduce(host.data(), host.data(), 1000, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), nullptr));
      EXPECT_EQ(host, sums(1000));
      expect_ok(gimbal_barrier(rank.comm(), rank.stream()));
      EXPECT_EQ(recv.read<int32_t>(rank.stream().get()), sums(1000));
    }
  });
}

// By way of the host a call goes to other nodes like any other: hierarchically, over TCP.
TEST(DevicesOfTwoNodes, ReduceAndGather) {
  const ScopedEnvironment nodes("GIMBAL_EMULATE_NODES", "2");
  run_device_ranks(RankKind::kThreads, 4, [](DeviceRank& rank) {
    for (const size_t count : {size_t{1}, size_t{1000}, kManyPieces}) {
      DeviceBuffer& buffer = rank.buffer(std::vector<int32_t>(count, rank.rank() + 1));
      expect_ok(gimbal_all_reduce(buffer.data(), buffer.data(), count, GIMBAL_INT32, GIMBAL_SUM, rank.comm(), rank.stream()));
      EXPECT_TRUE(buffer.read<int32_t>(rank.stream().get()) == std::vector<int32_t>(count, 10)) << count;
      DeviceBuffer& all = rank.buffer(4 * count * sizeof(int32_t));
      expect_ok(gimbal_all_gather(buffer.data(), all.data(), count, GIMBAL_INT32, rank.comm(), rank.stream()));
      EXPECT_TRUE(all.read<int32_t>(rank.stream().get()) == std::vector<int32_t>(4 * count, 10)) << count;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, DeviceCollectives, testing::ValuesIn(all_ways()),
                         [](const testing::TestParamInfo<Way>& tested) {
                           return rank_kind_name(tested.param.ranks) + "_" + tested.param.path;
                         });

}  // namespace
}  // namespace gimbal::test
