// Case C32: many communicators in one process, made one by one and at once, and jobs whose ranks and process ids are alike.
#include <gmock/gmock.h>

#include <memory>
#include <thread>

#include "tests/support/command.h"
#include "tests/support/known_sum.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

// What is asserted does not depend on the numbers. A pair measures which algorithm is faster when it is made, which takes
// seconds under ThreadSanitizer; three ranks do not.
#ifdef __SANITIZE_THREAD__
constexpr int32_t kRanks = 3;
constexpr int kCommunicators = 16;
constexpr int kRounds = 1;
#else
constexpr int32_t kRanks = 2;
constexpr int kCommunicators = 128;
constexpr int kRounds = 5;
#endif

class ManyCommunicators : public RanksTest, public testing::WithParamInterface<RankKind> {};

TEST_P(ManyCommunicators, MadeOneByOneAllWork) {
  run_ranks(GetParam(), kRanks, [](const RankContext& context) {
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int i = 0; i < kCommunicators; ++i) {
      communicators.push_back(std::make_unique<Communicator>(context));
      KnownSum sum(*communicators.back(), 1000);
      expect_exact_sum(sum);
    }
    for (const std::unique_ptr<Communicator>& communicator : communicators) {
      KnownSum sum(*communicator, 1000);
      expect_exact_sum(sum);
    }
  });
}

// Each thread's communicators meet their namesakes on the other ranks, all at the same time.
void make_and_use_in_threads(RankKind kind, int rounds) {
  constexpr int kThreads = 8;
  run_ranks(kind, kRanks, [rounds](const RankContext& context) {
    const auto run_thread = [&context, rounds](int number) {
      try {
        for (int round = 0; round < rounds; ++round) {
          Communicator communicator(
              RankContext{context.rank, context.size, context.rendezvous + "-thread-" + std::to_string(number)});
          KnownSum sum(communicator, 1000 + static_cast<size_t>(number));
          expect_exact_sum(sum);
        }
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << context.rank << ", thread " << number << ": " << error.what();
      }
    };
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) threads.emplace_back(run_thread, number);
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_P(ManyCommunicators, MadeAndUsedByThreadsAtOnceWork) { make_and_use_in_threads(GetParam(), kRounds); }

INSTANTIATE_TEST_SUITE_P(Cases, ManyCommunicators, testing::ValuesIn(rank_kinds()), kind_test_name);

class LongManyCommunicators : public RanksTest, public testing::WithParamInterface<RankKind> {};
TEST_P(LongManyCommunicators, MadeAndUsedByThreadsAtOnceWork) { make_and_use_in_threads(GetParam(), 200); }
INSTANTIATE_TEST_SUITE_P(Cases, LongManyCommunicators, testing::ValuesIn(rank_kinds()), kind_test_name);

class TwoJobs : public ProcessRanksTest {};

// One of them in a process-id namespace of its own, where pids begin at 1 as they did in the first container.
TEST_F(TwoJobs, WithEqualRanksAndProcessIdsDoNotMeet) {
  const std::vector<std::string> job = {
      binary("gimbal-run"), "-n", "2", binary("gimbal-bench"), "-b", "1K", "-e", "1M", "-f", "4", "-n", "20", "-c", "1"};
  std::vector<std::string> contained = {"unshare", "-pf", "--kill-child"};
  contained.insert(contained.end(), job.begin(), job.end());
  Command first(contained);
  Command second(contained);
  Command third(job);
  const CommandResult results[] = {first.finish(), second.finish(), third.finish()};
  if (results[0].err.find("unshare failed") != std::string::npos) GTEST_SKIP() << results[0].err;
  for (const CommandResult& result : results) {
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, testing::HasSubstr("# Out of bounds values : 0 OK"));
  }
}

}  // namespace
}  // namespace gimbal::test
