// Every collective through the C API: roots, in-place forms, all types and operations, uneven blocks, weights.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/expect_ok.h"
#include "tests/support/scenario.h"
#include "tests/support/values.h"

namespace gimbal::test {
namespace {

using testing::HasSubstr;

constexpr int32_t kRanks = 3;
// Beside a flag, in one chunk, in several.
constexpr size_t kCounts[] = {1, 5, 1000, 3000, 200'001};

class Collectives : public RanksTest, public testing::WithParamInterface<RankKind> {
 protected:
  static void run(const std::function<void(Communicator&)>& function) {
    run_ranks(GetParam(), kRanks, [&](const RankContext& context) {
      Communicator communicator(context);
      function(communicator);
    });
  }
};

int32_t value_at(int32_t rank, size_t place) { return static_cast<int32_t>(place * 7 + static_cast<size_t>(rank) * 1000); }

std::vector<int32_t> values_of(int32_t rank, size_t count) {
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = value_at(rank, i);
  return values;
}

std::vector<int32_t> sums(size_t count) {
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = kRanks * static_cast<int32_t>(i * 7) + 3000;
  return values;
}

// Every rank's values, one after the other.
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

TEST_P(Collectives, ReduceAndBroadcastServeEveryRootInAndOutOfPlace) {
  run([](Communicator& communicator) {
    const int32_t rank = communicator.rank();
    for (const size_t count : kCounts) {
      for (int32_t root = 0; root < kRanks; ++root) {
        const std::vector<int32_t> send = values_of(rank, count);
        std::vector<int32_t> recv(rank == root ? count : 0);
        expect_ok(gimbal_reduce(send.data(), recv.data(), count, GIMBAL_INT32, GIMBAL_SUM, root, communicator.get(), nullptr));
        if (rank == root) {
          EXPECT_EQ(recv, sums(count)) << count;
        }
        std::vector<int32_t> both = send;
        expect_ok(gimbal_reduce(both.data(), both.data(), count, GIMBAL_INT32, GIMBAL_SUM, root, communicator.get(), nullptr));
        EXPECT_EQ(both, rank == root ? sums(count) : send) << count;
        std::vector<int32_t> buffer = send;
        expect_ok(gimbal_broadcast(buffer.data(), count, GIMBAL_INT32, root, communicator.get(), nullptr));
        EXPECT_EQ(buffer, values_of(root, count)) << count;
      }
    }
  });
}

TEST_P(Collectives, GatherAndScatterServeEveryRootInAndOutOfPlace) {
  run([](Communicator& communicator) {
    const int32_t rank = communicator.rank();
    for (const size_t count : kCounts) {
      const size_t own = static_cast<size_t>(rank) * count;
      for (int32_t root = 0; root < kRanks; ++root) {
        const bool is_root = rank == root;
        const std::vector<int32_t> send = values_of(rank, count);
        std::vector<int32_t> gathered(is_root ? kRanks * count : 0);
        expect_ok(gimbal_gather(send.data(), gathered.data(), count, GIMBAL_INT32, root, communicator.get(), nullptr));
        if (is_root) {
          EXPECT_EQ(gathered, all_values(count)) << count;
        }
        std::vector<int32_t> whole(kRanks * count);
        std::copy(send.begin(), send.end(), whole.begin() + static_cast<ptrdiff_t>(own));
        expect_ok(gimbal_gather(whole.data() + own, is_root ? whole.data() : nullptr, count, GIMBAL_INT32, root,
                                communicator.get(), nullptr));
        if (is_root) {
          EXPECT_EQ(whole, all_values(count)) << count;
        }

        std::vector<int32_t> scattered(count);
        std::vector<int32_t> source = is_root ? values_of(root, kRanks * count) : std::vector<int32_t>();
        expect_ok(gimbal_scatter(source.data(), scattered.data(), count, GIMBAL_INT32, root, communicator.get(), nullptr));
        EXPECT_EQ(scattered, block(values_of(root, kRanks * count), rank, count)) << count;
        int32_t* const place = is_root ? source.data() + own : scattered.data();
        expect_ok(gimbal_scatter(source.data(), place, count, GIMBAL_INT32, root, communicator.get(), nullptr));
        EXPECT_EQ(scattered, block(values_of(root, kRanks * count), rank, count)) << count;
        if (is_root) {
          EXPECT_EQ(source, values_of(root, kRanks * count)) << count;
        }
      }
    }
  });
}

TEST_P(Collectives, BlocksGoWhereTheyBelongInAndOutOfPlace) {
  run([](Communicator& communicator) {
    const int32_t rank = communicator.rank();
    for (const size_t count : kCounts) {
      const size_t own = static_cast<size_t>(rank) * count;
      const std::vector<int32_t> one = values_of(rank, count);
      const std::vector<int32_t> many = values_of(rank, kRanks * count);
      std::vector<int32_t> recv(count);
      expect_ok(gimbal_reduce_scatter(many.data(), recv.data(), count, GIMBAL_INT32, GIMBAL_SUM, communicator.get(), nullptr));
      EXPECT_EQ(recv, block(sums(kRanks * count), rank, count)) << count;
      std::vector<int32_t> both = many;
      expect_ok(
          gimbal_reduce_scatter(both.data(), both.data() + own, count, GIMBAL_INT32, GIMBAL_SUM, communicator.get(), nullptr));
      EXPECT_EQ(block(both, rank, count), recv) << count;

      std::vector<int32_t> gathered(kRanks * count);
      expect_ok(gimbal_all_gather(one.data(), gathered.data(), count, GIMBAL_INT32, communicator.get(), nullptr));
      EXPECT_EQ(gathered, all_values(count)) << count;
      std::fill(gathered.begin(), gathered.end(), -1);
      std::copy(one.begin(), one.end(), gathered.begin() + static_cast<ptrdiff_t>(own));
      expect_ok(gimbal_all_gather(gathered.data() + own, gathered.data(), count, GIMBAL_INT32, communicator.get(), nullptr));
      EXPECT_EQ(gathered, all_values(count)) << count;

      expect_ok(gimbal_all_to_all(many.data(), gathered.data(), count, GIMBAL_INT32, communicator.get(), nullptr));
      for (int32_t from = 0; from < kRanks; ++from) {
        EXPECT_EQ(block(gathered, from, count), block(values_of(from, kRanks * count), rank, count)) << count;
      }
      EXPECT_EQ(gimbal_all_to_all(gathered.data(), gathered.data(), count, GIMBAL_INT32, communicator.get(), nullptr),
                GIMBAL_INVALID_ARGUMENT);
    }
  });
}

TEST_P(Collectives, ServeEveryTypeAndOperation) {
  run([](Communicator& communicator) {
    constexpr size_t kCount = 67;
    for (int dtype_value = 0; dtype_value < kPublicDTypeCount; ++dtype_value) {
      for (int op_value = 0; op_value < kReduceOpCount; ++op_value) {
        const auto dtype = static_cast<DType>(dtype_value);
        const auto op = static_cast<ReduceOp>(op_value);
        // 1, 2, 3 on ranks 0, 1, 2 at even places, 2 everywhere at odd ones: small enough for every type.
        std::vector<double> input(kCount, 2);
        for (size_t i = 0; i < kCount; i += 2) input[i] = communicator.rank() + 1;
        const std::vector<std::byte> send = pack(dtype, input);
        std::vector<std::byte> recv(send.size());
        const gimbal_status_t status =
            gimbal_all_reduce(send.data(), recv.data(), kCount, static_cast<gimbal_dtype_t>(dtype_value),
                              static_cast<gimbal_op_t>(op_value), communicator.get(), nullptr);
        if (is_floating(dtype) && op >= ReduceOp::kBand) {
          EXPECT_EQ(status, GIMBAL_UNSUPPORTED);
          EXPECT_THAT(gimbal_last_error(), HasSubstr(std::string(reduce_op_name(op))));
          continue;
        }
        expect_ok(status);
        //                          sum prod min max avg band bor bxor
        constexpr double kEven[] = {6, 6, 1, 3, 2, 0, 3, 0};
        constexpr double kOdd[] = {6, 8, 2, 2, 2, 2, 2, 2};
        const std::vector<double> result = unpack(dtype, recv);
        for (size_t i = 0; i < kCount; ++i) {
          EXPECT_EQ(result[i], (i % 2 == 0 ? kEven : kOdd)[op_value]) << dtype_name(dtype) << " " << reduce_op_name(op);
        }
      }
    }
  });
}

TEST_P(Collectives, AllGatherVTakesEmptyBlocksAndGaps) {
  run([](Communicator& communicator) {
    const size_t counts[kRanks] = {4, 0, 70'000};
    const auto rank = static_cast<size_t>(communicator.rank());
    const std::vector<int32_t> send = values_of(communicator.rank(), counts[rank]);
    std::vector<int32_t> packed(70'004, -1);
    expect_ok(gimbal_all_gather_v(send.data(), send.size(), packed.data(), counts, nullptr, GIMBAL_INT32, communicator.get(),
                                  nullptr));
    EXPECT_TRUE(std::equal(packed.begin(), packed.begin() + 4, values_of(0, 4).begin()));
    EXPECT_TRUE(std::equal(packed.begin() + 4, packed.end(), values_of(2, 70'000).begin()));

    const size_t displacements[kRanks] = {70'010, 3, 5};
    std::vector<int32_t> spread(70'020, -1);
    expect_ok(gimbal_all_gather_v(send.data(), send.size(), spread.data(), counts, displacements, GIMBAL_INT32,
                                  communicator.get(), nullptr));
    std::vector<int32_t> expected(70'020, -1);
    for (size_t i = 0; i < 4; ++i) expected[70'010 + i] = value_at(0, i);
    for (size_t i = 0; i < 70'000; ++i) expected[5 + i] = value_at(2, i);
    EXPECT_EQ(spread, expected);
    EXPECT_EQ(gimbal_all_gather_v(send.data(), send.size() + 1, spread.data(), counts, nullptr, GIMBAL_INT32,
                                  communicator.get(), nullptr),
              GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(gimbal_last_error(), HasSubstr("recv_counts"));
  });
}

TEST_P(Collectives, AllToAllVTakesEmptyBlocksAndGaps) {
  run([](Communicator& communicator) {
    const int32_t rank = communicator.rank();
    // Rank r sends (r + 1) * (p + 1) elements to rank p, but none from 1 to 2.
    const auto count = [](int32_t from, int32_t to) {
      return from == 1 && to == 2 ? size_t{0} : static_cast<size_t>((from + 1) * (to + 1));
    };
    size_t send_counts[kRanks];
    size_t recv_counts[kRanks];
    size_t send_places[kRanks];
    size_t recv_places[kRanks];
    for (int32_t peer = 0; peer < kRanks; ++peer) {
      send_counts[peer] = count(rank, peer);
      recv_counts[peer] = count(peer, rank);
      send_places[peer] = static_cast<size_t>(peer) * 20 + 1;
      recv_places[peer] = static_cast<size_t>(kRanks - 1 - peer) * 20;
    }
    const std::vector<int32_t> send = values_of(rank, 60);
    std::vector<int32_t> recv(60, -1);
    expect_ok(gimbal_all_to_all_v(send.data(), send_counts, send_places, recv.data(), recv_counts, recv_places, GIMBAL_INT32,
                                  communicator.get(), nullptr));
    std::vector<int32_t> expected(60, -1);
    for (int32_t from = 0; from < kRanks; ++from) {
      for (size_t i = 0; i < recv_counts[from]; ++i) {
        expected[recv_places[from] + i] = value_at(from, static_cast<size_t>(rank) * 20 + 1 + i);
      }
    }
    EXPECT_EQ(recv, expected);

    std::vector<int32_t> packed(60, -1);
    expect_ok(gimbal_all_to_all_v(send.data(), send_counts, nullptr, packed.data(), recv_counts, nullptr, GIMBAL_INT32,
                                  communicator.get(), nullptr));
    size_t at = 0;
    for (int32_t from = 0; from < kRanks; ++from) {
      size_t first = 0;
      for (int32_t to = 0; to < rank; ++to) first += count(from, to);
      for (size_t i = 0; i < recv_counts[from]; ++i) EXPECT_EQ(packed[at++], value_at(from, first + i));
    }
    ++send_counts[rank];
    EXPECT_EQ(gimbal_all_to_all_v(send.data(), send_counts, nullptr, packed.data(), recv_counts, nullptr, GIMBAL_INT32,
                                  communicator.get(), nullptr),
              GIMBAL_INVALID_ARGUMENT);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Collectives, testing::ValuesIn(rank_kinds()), kind_test_name);

// One rank alone copies, and must not read what its arrays do not promise.
TEST(OneRank, RefusesBlocksToItselfOfDifferentSizes) {
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  config.rank = 0;
  config.size = 1;
  Communicator communicator(config);
  const size_t sent = 2;
  const size_t received = 5;
  const int32_t send[2] = {1, 2};
  int32_t recv[5] = {};
  EXPECT_EQ(gimbal_all_to_all_v(send, &sent, nullptr, recv, &received, nullptr, GIMBAL_INT32, communicator.get(), nullptr),
            GIMBAL_INVALID_ARGUMENT);
  EXPECT_THAT(gimbal_last_error(), testing::AllOf(HasSubstr("send_counts[0] is 2"), HasSubstr("recv_counts[0] is 5")));
}

}  // namespace
}  // namespace gimbal::test
