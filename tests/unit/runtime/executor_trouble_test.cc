// The executor under ranks that really run at once, and over links that lie.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/runtime/collective_case.h"

namespace gimbal::test {
namespace {

double rank_plus_one(Rank rank, size_t) { return rank + 1; }

CollectiveCase all_reduce_case(std::string_view algorithm, Rank nranks, size_t count) {
  CollectiveCase c;
  c.algorithm = find_algorithm(Collective::kAllReduce, algorithm);
  c.nranks = nranks;
  c.count = count;
  c.channels = 2;
  return c;
}

Mesh mesh_for(const CollectiveCase& c) {
  return Mesh({.nranks = c.nranks, .slot_bytes = c.slice_bytes, .window = 4, .channels = c.channels});
}

std::vector<std::unique_ptr<WorldRank>> make_ranks(const CollectiveCase& c) {
  std::vector<std::unique_ptr<WorldRank>> ranks;
  for (Rank r = 0; r < c.nranks; ++r) ranks.push_back(make_world_rank(c, r, rank_plus_one).value());
  return ranks;
}

// What a rank's own loop is without deadlines: progress until done.
Status run_alone(CpuExecutor& executor) {
  for (;;) {
    ASSIGN_OR_RETURN(const Progress progress, executor.progress());
    if (progress == Progress::kDone) return {};
    std::this_thread::yield();
  }
}

class ThreadedRanks : public ::testing::TestWithParam<const Algorithm*> {};

TEST_P(ThreadedRanks, AddExactlyOverSharedMemoryAgainAndAgain) {
  const CollectiveCase c = all_reduce_case(GetParam()->name, 4, 500);
  Mesh mesh = mesh_for(c);
  ExecutorWorld world(mesh, make_ranks(c));
  std::vector<Status> results(world.size());
  std::vector<std::thread> threads;
  for (Rank r = 0; r < c.nranks; ++r) {
    threads.emplace_back([&, r] {
      Status& result = results[static_cast<size_t>(r)];
      for (size_t round = 0; round < 20 && result.ok(); ++round) {
        result = world.bind(static_cast<size_t>(r));
        if (result.ok()) result = run_alone(world.rank(r).executor);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (Rank r = 0; r < c.nranks; ++r) {
    ASSERT_TRUE(results[static_cast<size_t>(r)].ok()) << results[static_cast<size_t>(r)].message();
    for (const double value : unpack(c.dtype, world.rank(r).output.bytes())) ASSERT_EQ(value, 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ThreadedRanks, ::testing::ValuesIn(algorithms_for(Collective::kAllReduce)),
                         [](const auto& algorithm) { return std::string(algorithm.param->name); });

// Changes one message: its tag, or its length by one byte.
class LyingEndpoint : public Endpoint {
 public:
  enum class Lie : uint8_t { kTag, kLength };
  LyingEndpoint(Endpoint& inner, Lie lie, size_t message) : inner_(inner), lie_(lie), message_(message) {}

  [[nodiscard]] bool has_lied() const { return committed_ > message_; }
  [[nodiscard]] Rank peer() const override { return inner_.peer(); }
  [[nodiscard]] const LinkProperties& properties() const override { return inner_.properties(); }
  [[nodiscard]] size_t slot_bytes() const override { return inner_.slot_bytes(); }
  [[nodiscard]] size_t window() const override { return inner_.window(); }
  [[nodiscard]] Channel channels() const override { return inner_.channels(); }
  Result<std::optional<std::span<std::byte>>> acquire(Channel channel, size_t bytes) override {
    return inner_.acquire(channel, bytes);
  }
  Status commit(Channel channel, size_t bytes, uint64_t tag) override {
    const bool lies = committed_++ == message_;
    return inner_.commit(channel, bytes - (lies && lie_ == Lie::kLength ? 1 : 0), tag ^ (lies && lie_ == Lie::kTag ? 1U : 0U));
  }
  Result<std::optional<ReceivedMessage>> front(Channel channel) override { return inner_.front(channel); }
  void release(Channel channel) override { inner_.release(channel); }

 private:
  Endpoint& inner_;
  Lie lie_;
  size_t message_;
  size_t committed_ = 0;
};

// The error that all ranks' run ends with when rank 1 lies to rank 2; OK when it had fewer messages to send.
Code run_with_lie(LyingEndpoint::Lie lie, size_t message) {
  const CollectiveCase c = all_reduce_case("ring", 3, 100);
  Mesh mesh = mesh_for(c);
  LyingEndpoint liar(*mesh.endpoints(1)[2], lie, message);
  mesh.replace(1, 2, &liar);
  ExecutorWorld world(mesh, make_ranks(c));
  const Status status = world.run();
  EXPECT_EQ(status.ok(), !liar.has_lied()) << "message " << message;
  return status.code();
}

TEST(LyingLink, NeverLeadsToASuccessWhicheverTagIsWrong) {
  size_t message = 0;
  while (run_with_lie(LyingEndpoint::Lie::kTag, message) == Code::kMismatch) ++message;
  EXPECT_EQ(run_with_lie(LyingEndpoint::Lie::kTag, message), Code::kOk);
  EXPECT_GT(message, 4U);
}

TEST(LyingLink, NeverLeadsToASuccessWhicheverLengthIsWrong) {
  size_t message = 0;
  while (run_with_lie(LyingEndpoint::Lie::kLength, message) == Code::kInternal) ++message;
  EXPECT_EQ(run_with_lie(LyingEndpoint::Lie::kLength, message), Code::kOk);
  EXPECT_GT(message, 4U);
}

}  // namespace
}  // namespace gimbal::test
