// Case C08: nothing to reduce, and nobody to reduce with.
#include <gmock/gmock.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <numeric>

#include "base/file_descriptor.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

using testing::Each;
using testing::ElementsAreArray;

class ZeroElements : public ScenarioTest {};

TEST_P(ZeroElements, AreASuccessBetweenTwoNormalCalls) {
  constexpr int32_t kRanks = 3;
  constexpr size_t kCount = 5;
  run_ranks(GetParam().ranks, kRanks, [&](const RankContext& context) {
    Communicator communicator(context, GetParam().algorithm);
    Buffer send(communicator, GetParam().memory, kCount * sizeof(float));
    Buffer recv(communicator, GetParam().memory, kCount * sizeof(float));
    const auto input = send.place<float>(kCount);
    const auto output = recv.place<float>(kCount);
    std::fill(input.begin(), input.end(), static_cast<float>(context.rank + 1));
    communicator.all_reduce(input.data(), output.data(), kCount, GIMBAL_FLOAT32, GIMBAL_SUM);
    EXPECT_THAT(output, Each(6));
    communicator.all_reduce(nullptr, nullptr, 0, GIMBAL_FLOAT32, GIMBAL_SUM);
    communicator.all_reduce(input.data(), output.data(), 0, GIMBAL_FLOAT32, GIMBAL_MAX);
    EXPECT_THAT(output, Each(6));
    communicator.all_reduce(input.data(), output.data(), kCount, GIMBAL_FLOAT32, GIMBAL_MAX);
    EXPECT_THAT(output, Each(3));
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, ZeroElements, testing::ValuesIn(all_scenarios()), scenario_test_name);

class EveryCollective : public RanksTest, public testing::WithParamInterface<RankKind> {};

TEST_P(EveryCollective, AcceptsZeroElements) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    Communicator communicator(context);
    const gimbal_comm_t comm = communicator.get();
    constexpr gimbal_dtype_t kType = GIMBAL_FLOAT32;
    const std::vector<size_t> zeros(3, 0);
    EXPECT_EQ(gimbal_all_reduce(nullptr, nullptr, 0, kType, GIMBAL_SUM, comm, nullptr), GIMBAL_OK) << gimbal_last_error();
    EXPECT_EQ(gimbal_reduce_scatter(nullptr, nullptr, 0, kType, GIMBAL_SUM, comm, nullptr), GIMBAL_OK) << gimbal_last_error();
    EXPECT_EQ(gimbal_all_gather(nullptr, nullptr, 0, kType, comm, nullptr), GIMBAL_OK) << gimbal_last_error();
    EXPECT_EQ(gimbal_broadcast(nullptr, 0, kType, 1, comm, nullptr), GIMBAL_OK) << gimbal_last_error();
    EXPECT_EQ(gimbal_reduce(nullptr, nullptr, 0, kType, GIMBAL_SUM, 1, comm, nullptr), GIMBAL_OK) << gimbal_last_error();
    EXPECT_EQ(gimbal_all_to_all(nullptr, nullptr, 0, kType, comm, nullptr), GIMBAL_OK) << gimbal_last_error();
    EXPECT_EQ(gimbal_gather(nullptr, nullptr, 0, kType, 1, comm, nullptr), GIMBAL_OK) << gimbal_last_error();
    EXPECT_EQ(gimbal_scatter(nullptr, nullptr, 0, kType, 1, comm, nullptr), GIMBAL_OK) << gimbal_last_error();
    EXPECT_EQ(gimbal_all_gather_v(nullptr, 0, nullptr, zeros.data(), nullptr, kType, comm, nullptr), GIMBAL_OK)
        << gimbal_last_error();
    EXPECT_EQ(gimbal_all_to_all_v(nullptr, zeros.data(), nullptr, nullptr, zeros.data(), nullptr, kType, comm, nullptr),
              GIMBAL_OK)
        << gimbal_last_error();
    float value = 1;
    communicator.all_reduce(&value, &value, 1, kType, GIMBAL_SUM);
    EXPECT_EQ(value, 3);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryCollective, testing::ValuesIn(rank_kinds()), kind_test_name);

// Leaves the calling process without any network: a new network namespace has only a loopback interface, and that is down.
bool leave_the_network() {
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const FileDescriptor socket_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback{};
  std::snprintf(loopback.ifr_name, sizeof loopback.ifr_name, "lo");
  return ioctl(socket_fd.get(), SIOCGIFFLAGS, &loopback) == 0 && (loopback.ifr_flags & IFF_UP) == 0;
}

// Every collective of one rank copies its input to its output.
void expect_every_collective_copies(Communicator& communicator) {
  const gimbal_comm_t comm = communicator.get();
  constexpr gimbal_dtype_t kType = GIMBAL_FLOAT32;
  constexpr size_t kCount = 1000;
  std::vector<float> input(kCount);
  std::iota(input.begin(), input.end(), 1.0F);
  const auto expect_copied = [&](const char* what, const auto& call) {
    std::vector<float> output(kCount, 0);
    EXPECT_EQ(call(input.data(), output.data()), GIMBAL_OK) << what << ": " << gimbal_last_error();
    EXPECT_THAT(output, ElementsAreArray(input)) << what;
  };
  for (const gimbal_op_t op : {GIMBAL_SUM, GIMBAL_PROD, GIMBAL_MIN, GIMBAL_MAX, GIMBAL_AVG}) {
    expect_copied("all_reduce",
                  [&](auto* in, auto* out) { return gimbal_all_reduce(in, out, kCount, kType, op, comm, nullptr); });
    expect_copied("reduce_scatter",
                  [&](auto* in, auto* out) { return gimbal_reduce_scatter(in, out, kCount, kType, op, comm, nullptr); });
    expect_copied("reduce", [&](auto* in, auto* out) { return gimbal_reduce(in, out, kCount, kType, op, 0, comm, nullptr); });
  }
  expect_copied("all_gather", [&](auto* in, auto* out) { return gimbal_all_gather(in, out, kCount, kType, comm, nullptr); });
  expect_copied("all_to_all", [&](auto* in, auto* out) { return gimbal_all_to_all(in, out, kCount, kType, comm, nullptr); });
  expect_copied("gather", [&](auto* in, auto* out) { return gimbal_gather(in, out, kCount, kType, 0, comm, nullptr); });
  expect_copied("scatter", [&](auto* in, auto* out) { return gimbal_scatter(in, out, kCount, kType, 0, comm, nullptr); });
  EXPECT_EQ(gimbal_broadcast(input.data(), kCount, kType, 0, comm, nullptr), GIMBAL_OK) << gimbal_last_error();
  EXPECT_EQ(gimbal_barrier(comm, nullptr), GIMBAL_OK) << gimbal_last_error();
}

class OneRank : public RanksTest {};

TEST_F(OneRank, WorksWithoutANetwork) {
  constexpr int64_t kTimeoutOfProcessMs = 30'000;
  const std::vector<ProcessResult> results = run_processes(
      1,
      [](const RankContext&) {
        if (!leave_the_network()) GTEST_SKIP() << "this kernel lets the test make no network namespace";
        gimbal_config_t config = GIMBAL_CONFIG_INIT;
        config.rank = 0;
        config.size = 1;
        Communicator communicator(config);
        expect_every_collective_copies(communicator);
      },
      kTimeoutOfProcessMs);
  EXPECT_EQ(results[0].exit_code, 0) << results[0].output;
}

TEST_F(OneRank, WorksWithEveryAlgorithm) {
  for (const char* algorithm : kAllReduceAlgorithms) {
    run_ranks(RankKind::kThreads, 1, [&](const RankContext& context) {
      Communicator communicator(context, algorithm);
      expect_every_collective_copies(communicator);
    });
  }
}

}  // namespace
}  // namespace gimbal::test
