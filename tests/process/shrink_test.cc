// gimbal_comm_shrink: the ranks that are left after a failure go on, whatever failed and whatever fails meanwhile, and a rank
// that was lost comes back by a new create.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "tests/support/expect_ok.h"
#include "tests/support/scenario.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/shared_page.h"
#include "tests/support/sudden_end.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kNanosPerMs = 1'000'000;

// A communicator of the C API that ends with its scope.
class Shrunk {
 public:
  explicit Shrunk(gimbal_comm_t old) { expect_ok(gimbal_comm_shrink(old, &comm_), "shrink"); }
  ~Shrunk() {
    if (comm_ != nullptr) expect_ok(gimbal_comm_destroy(comm_));
  }
  Shrunk(const Shrunk&) = delete;
  Shrunk& operator=(const Shrunk&) = delete;
  [[nodiscard]] gimbal_comm_t get() const { return comm_; }

 private:
  gimbal_comm_t comm_ = nullptr;
};

// The old ranks of its members, in the order of their new ranks; and sums of all sizes are right among them.
void expect_works_among(gimbal_comm_t comm, int32_t old_rank, const std::vector<int32_t>& members) {
  const auto count = static_cast<int32_t>(members.size());
  int32_t rank = -1;
  int32_t size = -1;
  expect_ok(gimbal_comm_rank(comm, &rank));
  expect_ok(gimbal_comm_size(comm, &size));
  ASSERT_EQ(size, count);
  std::vector<int32_t> gathered(members.size());
  expect_ok(gimbal_all_gather(&old_rank, gathered.data(), 1, GIMBAL_INT32, comm, nullptr));
  EXPECT_EQ(gathered, members) << "ranks keep their order";
  EXPECT_EQ(members[static_cast<size_t>(rank)], old_rank);
  for (const size_t elements : {size_t{1}, size_t{5'000}, size_t{1} << 20}) {
    // Before the last sum: after it a peer may have left already.
    EXPECT_EQ(gimbal_comm_status(comm), GIMBAL_OK);
    std::vector<int32_t> data(elements, rank + 1);
    expect_ok(gimbal_all_reduce(data.data(), data.data(), elements, GIMBAL_INT32, GIMBAL_SUM, comm, nullptr));
    EXPECT_EQ(data.front(), count * (count + 1) / 2);
    EXPECT_EQ(data.back(), count * (count + 1) / 2);
  }
}

// Sums until one fails; the victims are killed between two of them, or in one.
gimbal_status_t sum_until_failure(gimbal_comm_t comm, const std::function<void()>& after_first) {
  std::vector<float> data(size_t{1} << 18);
  while (true) {
    const gimbal_status_t status =
        gimbal_all_reduce(data.data(), data.data(), data.size(), GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr);
    if (status != GIMBAL_OK) return status;
    after_first();
  }
}

std::vector<int32_t> everybody_but(int32_t ranks, const std::set<int32_t>& gone) {
  std::vector<int32_t> left;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    if (!gone.contains(rank)) left.push_back(rank);
  }
  return left;
}

void expect_ends(const std::vector<ProcessResult>& results, const std::set<int32_t>& killed) {
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const ProcessResult& result = results[rank];
    if (killed.contains(static_cast<int32_t>(rank))) {
      EXPECT_EQ(result.signal, SIGKILL) << "rank " << rank << ", a victim:\n" << result.output;
    } else {
      EXPECT_EQ(result.exit_code, 0) << "rank " << rank << (result.timed_out ? ", killed at the deadline" : "") << ":\n"
                                     << result.output;
    }
  }
}

class ShrinkAfterDeath : public ProcessRanksTest {
 protected:
  static void kill_and_shrink(int32_t ranks, const std::set<int32_t>& victims) {
    const auto live = [&](const RankContext& context) {
      Communicator communicator(context);
      const bool dies = victims.contains(context.rank);
      EXPECT_EQ(sum_until_failure(communicator.get(),
                                  [&] {
                                    if (dies) raise(SIGKILL);
                                  }),
                GIMBAL_REMOTE)
          << gimbal_last_error();
      const Shrunk shrunk(communicator.get());
      ASSERT_NE(shrunk.get(), nullptr);
      expect_works_among(shrunk.get(), context.rank, everybody_but(ranks, victims));
    };
    expect_ends(run_processes(ranks, live, 2 * kTimeoutMs), victims);
  }
};

TEST_F(ShrinkAfterDeath, OfAnyOneRankTheOthersGoOn) {
  for (const int32_t victim : {0, 1, 2}) kill_and_shrink(3, {victim});
}

TEST_F(ShrinkAfterDeath, OfTwoRanksTheOthersGoOn) { kill_and_shrink(5, {0, 3}); }

TEST_F(ShrinkAfterDeath, OfAllOthersTheLastGoesOnAlone) { kill_and_shrink(4, {0, 1, 3}); }

// A second death at a moment between the first and the end of the shrink; then the communicator that has it in it fails too,
// and is shrunk again.
TEST_F(ShrinkAfterDeath, OfAnotherRankMeanwhileTheOthersGoOn) {
  constexpr int32_t kRanks = 4;
  constexpr int kMoments = 8;
  for (int moment = 0; moment < kMoments; ++moment) {
    const auto live = [&](const RankContext& context) {
      Communicator communicator(context);
      EXPECT_EQ(sum_until_failure(communicator.get(),
                                  [&] {
                                    if (context.rank == 1) raise(SIGKILL);
                                  }),
                GIMBAL_REMOTE);
      // Shrinking takes about 10 ms here.
      if (context.rank == 2) end_suddenly_at(monotonic_ns() + moment * 2 * kNanosPerMs);
      Shrunk shrunk(communicator.get());
      ASSERT_NE(shrunk.get(), nullptr);
      int32_t size = 0;
      expect_ok(gimbal_comm_size(shrunk.get(), &size));
      if (size == 2) return expect_works_among(shrunk.get(), context.rank, {0, 3});
      EXPECT_EQ(sum_until_failure(shrunk.get(), [] {}), GIMBAL_REMOTE) << gimbal_last_error();
      const Shrunk again(shrunk.get());
      ASSERT_NE(again.get(), nullptr);
      expect_works_among(again.get(), context.rank, {0, 3});
    };
    expect_ends(run_processes(kRanks, live, 2 * kTimeoutMs), {1, 2});
  }
}

TEST_F(ShrinkAfterDeath, RequestsThatWereStartedFailAndTheSurvivorsGoOn) {
  const auto live = [](const RankContext& context) {
    Communicator communicator(context);
    std::vector<float> data(size_t{1} << 20);
    std::array<gimbal_request_t, 3> requests = {};
    for (gimbal_request_t& request : requests) {
      const gimbal_status_t started = gimbal_all_reduce_start(data.data(), data.data(), data.size(), GIMBAL_FLOAT32, GIMBAL_SUM,
                                                              communicator.get(), nullptr, &request);
      if (&request != requests.data() && started == GIMBAL_REMOTE) break;  // the death has been noticed already
      expect_ok(started);
      if (context.rank == 2) raise(SIGKILL);
    }
    EXPECT_EQ(gimbal_wait(requests.data()), GIMBAL_REMOTE) << gimbal_last_error();
    const Shrunk shrunk(communicator.get());
    ASSERT_NE(shrunk.get(), nullptr);
    expect_works_among(shrunk.get(), context.rank, {0, 1});
    for (gimbal_request_t& request : requests) {
      if (request == nullptr) continue;
      EXPECT_EQ(gimbal_wait(&request), GIMBAL_REMOTE) << "an old request is the old communicator's";
    }
  };
  expect_ends(run_processes(3, live, 2 * kTimeoutMs), {2});
}

// The one that was stopped wakes up to find that the others have gone on.
TEST_F(ShrinkAfterDeath, ARankThatIsStoppedPastTheDeadlineIsLeftBehindAndToldSo) {
  const ScopedEnvironment wait_briefly("GIMBAL_SHRINK_WAIT", "500ms");
  struct Page {
    std::atomic<pid_t> stopped;
    std::atomic<int> done;
  };
  const Shared<Page> page;
  const auto live = [&](const RankContext& context) {
    gimbal_config_t config = rank_config(context);
    config.timeout_ms = 500;
    Communicator communicator(config);
    if (context.rank == 1) {
      page->stopped.store(getpid());
      raise(SIGSTOP);
    }
    const gimbal_status_t status = sum_until_failure(communicator.get(), [] {});
    EXPECT_EQ(status, GIMBAL_TIMEOUT) << gimbal_last_error();
    EXPECT_THAT(gimbal_last_error(), HasSubstr("rank 1 (pid "));
    if (context.rank == 1) {
      gimbal_comm_t out = nullptr;
      EXPECT_EQ(gimbal_comm_shrink(communicator.get(), &out), GIMBAL_REMOTE) << gimbal_last_error();
      EXPECT_THAT(gimbal_last_error(), HasSubstr("went on without rank 1"));
      return;
    }
    const Shrunk shrunk(communicator.get());
    ASSERT_NE(shrunk.get(), nullptr);
    expect_works_among(shrunk.get(), context.rank, {0, 2});
    if (page->done.fetch_add(1) == 1) kill(page->stopped.load(), SIGCONT);
  };
  expect_ends(run_processes(3, live, 2 * kTimeoutMs), {});
}

// Survivors and a new process meet under the next generation's address; nobody that lived was restarted.
TEST_F(ShrinkAfterDeath, ANewProcessTakesTheLostPlaceByANewCreate) {
  constexpr int32_t kRanks = 3;
  const auto create_again = [](const RankContext& context, int32_t rank) {
    RankContext next = context;
    next.rank = rank;
    next.size = kRanks;
    next.rendezvous = context.rendezvous + "-generation-1";
    return Communicator(rank_config(next));
  };
  const auto live = [&](const RankContext& context) {
    if (context.rank == kRanks) {  // the process that takes the place
      const Communicator world = create_again(context, kRanks - 1);
      return expect_works_among(world.get(), 7, {0, 2, 7});
    }
    RankContext first = context;
    first.size = kRanks;
    Communicator communicator(first);
    EXPECT_EQ(sum_until_failure(communicator.get(),
                                [&] {
                                  if (context.rank == 1) raise(SIGKILL);
                                }),
              GIMBAL_REMOTE);
    int32_t rank = -1;
    {
      const Shrunk shrunk(communicator.get());
      ASSERT_NE(shrunk.get(), nullptr);
      expect_ok(gimbal_comm_rank(shrunk.get(), &rank));
    }
    const Communicator world = create_again(context, rank);
    expect_works_among(world.get(), context.rank, {0, 2, 7});
  };
  expect_ends(run_processes(kRanks + 1, live, 2 * kTimeoutMs), {1});
}

class Shrink : public RanksTest, public testing::WithParamInterface<RankKind> {};

TEST_P(Shrink, AfterAnAbortHoldsAllRanksAgain) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    Communicator communicator(context);
    if (context.rank == 1) expect_ok(gimbal_comm_abort(communicator.get()));
    EXPECT_EQ(sum_until_failure(communicator.get(), [] {}), GIMBAL_ABORTED) << gimbal_last_error();
    const Shrunk shrunk(communicator.get());
    ASSERT_NE(shrunk.get(), nullptr);
    EXPECT_EQ(gimbal_comm_destroy(communicator.get()), GIMBAL_OK) << "the old one may go first";
    expect_works_among(shrunk.get(), context.rank, {0, 1, 2});
  });
}

TEST_P(Shrink, GoesOnWithoutARankThatDestroyedItsCommunicator) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    Communicator communicator(context);
    if (context.rank == 0) return;
    EXPECT_EQ(sum_until_failure(communicator.get(), [] {}), GIMBAL_REMOTE) << gimbal_last_error();
    const Shrunk shrunk(communicator.get());
    ASSERT_NE(shrunk.get(), nullptr);
    expect_works_among(shrunk.get(), context.rank, {1, 2});
  });
}

TEST_P(Shrink, MayBeRepeatedUntilOneIsLeft) {
  run_ranks(GetParam(), 4, [](const RankContext& context) {
    auto communicator = std::make_unique<Communicator>(context);
    std::vector<std::unique_ptr<Shrunk>> generations;
    gimbal_comm_t current = communicator->get();
    for (int32_t leaves = 0; leaves < context.size - 1; ++leaves) {
      if (context.rank == leaves) return;
      EXPECT_EQ(sum_until_failure(current, [] {}), GIMBAL_REMOTE) << gimbal_last_error();
      generations.push_back(std::make_unique<Shrunk>(current));
      current = generations.back()->get();
      ASSERT_NE(current, nullptr);
      if (leaves > 0) generations[static_cast<size_t>(leaves) - 1].reset();
      std::vector<int32_t> left(static_cast<size_t>(context.size - leaves - 1));
      std::iota(left.begin(), left.end(), leaves + 1);
      expect_works_among(current, context.rank, left);
    }
  });
}

// One half does not come; the other one, without rank 0, may not go on, since the first might.
TEST_P(Shrink, RefusesToLeaveAsManyBehindAsGoOn) {
  const ScopedEnvironment wait_briefly("GIMBAL_SHRINK_WAIT", "300ms");
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator communicator(context);
    if (context.rank == 0) {
      expect_ok(gimbal_comm_abort(communicator.get()));
      int32_t nothing = 0;
      // Until the other one has its answer, this rank is there and silent.
      Communicator other({context.rank, context.size, context.rendezvous + "-after"});
      expect_ok(gimbal_all_reduce(&nothing, &nothing, 1, GIMBAL_INT32, GIMBAL_SUM, other.get(), nullptr));
      return;
    }
    EXPECT_EQ(sum_until_failure(communicator.get(), [] {}), GIMBAL_ABORTED);
    gimbal_comm_t out = nullptr;
    EXPECT_EQ(gimbal_comm_shrink(communicator.get(), &out), GIMBAL_TIMEOUT) << gimbal_last_error();
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("rank 0 live"), HasSubstr("too few")));
    EXPECT_EQ(out, nullptr);
    int32_t nothing = 0;
    Communicator other({context.rank, context.size, context.rendezvous + "-after"});
    expect_ok(gimbal_all_reduce(&nothing, &nothing, 1, GIMBAL_INT32, GIMBAL_SUM, other.get(), nullptr));
  });
}

TEST_P(Shrink, IsEndedByAnAbort) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator communicator(context);
    Communicator other({context.rank, context.size, context.rendezvous + "-after"});
    if (context.rank == 0) {  // it never shrinks
      expect_ok(gimbal_comm_abort(communicator.get()));
      expect_ok(gimbal_barrier(other.get(), nullptr));
      return;
    }
    EXPECT_EQ(sum_until_failure(communicator.get(), [] {}), GIMBAL_ABORTED);
    std::atomic<bool> returned{false};
    std::thread aborter([&] {
      // Again and again: what was aborted before the shrink began is no reason to end it.
      while (!returned.load()) gimbal_comm_abort(communicator.get());
    });
    gimbal_comm_t out = nullptr;
    const int64_t begin_ns = monotonic_ns();
    EXPECT_EQ(gimbal_comm_shrink(communicator.get(), &out), GIMBAL_ABORTED) << gimbal_last_error();
    EXPECT_LT(monotonic_ns() - begin_ns, 2'000 * kNanosPerMs);
    returned.store(true);
    aborter.join();
    expect_ok(gimbal_barrier(other.get(), nullptr));
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, Shrink, testing::ValuesIn(rank_kinds()), kind_test_name);

}  // namespace
}  // namespace gimbal::test
