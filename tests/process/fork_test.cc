// Case C38: a rank forks, as data loaders do. Its children get errors, hold nothing once they exec, and do not hide its death.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "base/deadline.h"
#include "tests/support/command.h"
#include "tests/support/known_sum.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"
#include "tests/support/shared_page.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Status 0 when every call on the parent's communicator is refused.
[[noreturn]] void use_the_parents_communicator(gimbal_comm_t comm, gimbal_request_t request) {
  float value = 1;
  int wrong = 0;
  int done = 0;
  gimbal_request_t started = nullptr;
  for (const gimbal_status_t status : {
           gimbal_all_reduce(&value, &value, 1, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr),
           gimbal_all_reduce_start(&value, &value, 1, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr, &started),
           gimbal_send(&value, 1, GIMBAL_FLOAT32, 0, comm, nullptr),
           gimbal_barrier(comm, nullptr),
           gimbal_test(&request, &done),
           gimbal_wait(&request),
       }) {
    wrong += status == GIMBAL_INVALID_USAGE ? 0 : 1;
  }
  wrong += gimbal_comm_destroy(comm) == GIMBAL_OK ? 0 : 1;
  _exit(wrong);
}

[[noreturn]] void be_a_child(int number, gimbal_comm_t comm, gimbal_request_t request) {
  switch (number % 4) {
    case 0:
      _exit(0);
    case 1:
      std::exit(0);  // with everything that the library and the program registered for it
    case 2:
      execl("/bin/true", "true", nullptr);
      _exit(127);
    default:
      use_the_parents_communicator(comm, request);
  }
}

class Fork : public ProcessRanksTest {};

TEST_F(Fork, ChildrenEndCleanlyAndTheParentsResultsStayExact) {
  constexpr int kChildren = 20;
  constexpr int kRounds = 1000;
  run_ranks(RankKind::kProcesses, 2, [](const RankContext& context) {
    Communicator communicator(context);
    KnownSum sum(communicator, 256);
    std::vector<pid_t> children;
    for (int round = 0; round < kRounds; ++round) {
      expect_exact_sum(sum);
      if (round % (kRounds / kChildren) != 0) continue;
      gimbal_request_t request = nullptr;  // a progress thread that the child does not have
      ASSERT_EQ(gimbal_barrier_start(communicator.get(), nullptr, &request), GIMBAL_OK);
      std::fflush(nullptr);
      const pid_t child = fork();
      if (child == 0) be_a_child(static_cast<int>(children.size()), communicator.get(), request);
      children.push_back(child);
      ASSERT_EQ(gimbal_wait(&request), GIMBAL_OK) << gimbal_last_error();
    }
    for (size_t i = 0; i < children.size(); ++i) {
      int status = -1;
      ASSERT_EQ(waitpid(children[i], &status, 0), children[i]);
      EXPECT_EQ(status, 0) << "child " << i;
    }
    expect_exact_sum(sum);
  });
}

TEST_F(Fork, ExecutedChildHoldsNoDescriptorOfTheLibrary) {
  run_ranks(RankKind::kProcesses, 3, [](const RankContext& context) {
    Communicator communicator(context);
    void* memory = nullptr;
    ASSERT_EQ(gimbal_mem_alloc(communicator.get(), GIMBAL_MEMORY_HOST, 4096, &memory), GIMBAL_OK) << gimbal_last_error();
    const CommandResult result = run_command({"ls", "-l", "/proc/self/fd"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(" 0 -> "));
    EXPECT_THAT(result.out, AllOf(Not(HasSubstr("socket:")), Not(HasSubstr("memfd:")), Not(HasSubstr("anon_inode:"))));
    EXPECT_EQ(gimbal_barrier(communicator.get(), nullptr), GIMBAL_OK);
  });
}

// Waits for the child until the deadline, then kills it. What waitpid says of it.
int status_of(pid_t child, const Deadline& deadline) {
  int status = -1;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (deadline.passed()) kill(child, SIGKILL);
    std::this_thread::yield();
  }
  return status;
}

TEST_F(Fork, ChildNeverWaitsForALockThatAnotherThreadHeld) {
  constexpr int kChildren = 200;
  run_ranks(RankKind::kProcesses, 1, [](const RankContext& context) {
    Communicator communicator(context);
    std::atomic<bool> over = false;
    std::thread other([&] {
      while (!over) gimbal_comm_status(communicator.get());
    });
    const Deadline deadline = Deadline::after_ms(kTimeoutMs);
    int failed = 0;
    for (int i = 0; i < kChildren && failed == 0; ++i) {
      const pid_t child = fork();
      if (child == 0) _exit(gimbal_comm_status(communicator.get()) == GIMBAL_OK ? 1 : 0);
      failed = status_of(child, deadline);
    }
    over = true;
    other.join();
    EXPECT_EQ(failed, 0) << "a child hung (signal 9), or used its parent's communicator";
  });
}

struct Moment {
  std::atomic<int64_t> death_ns;
  std::atomic<int> noticed;
};

TEST_F(Fork, ChildThatLivesOnDoesNotHideItsParentsDeath) {
  const Shared<Moment> moment;
  const auto results = run_processes(
      2,
      [&](const RankContext& context) {
        Communicator communicator(context);
        KnownSum sum(communicator, 256);
        expect_exact_sum(sum);
        if (context.rank == 1) {
          if (fork() == 0) {
            const Deadline deadline = Deadline::after_ms(kTimeoutMs);
            while (moment->noticed == 0 && !deadline.passed()) std::this_thread::yield();
            _exit(0);
          }
          moment->death_ns = monotonic_ns();
          raise(SIGKILL);
        }
        EXPECT_EQ(sum.run(), GIMBAL_REMOTE) << gimbal_last_error();
        const int64_t noticed_ns = monotonic_ns();
        EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("rank 1 (pid "), HasSubstr("is gone")));
        EXPECT_LT(noticed_ns - moment->death_ns, 1'000'000'000);
        moment->noticed = 1;
      },
      kTimeoutMs + 5'000);
  EXPECT_EQ(results[0].exit_code, 0) << results[0].output;
  EXPECT_EQ(results[1].signal, SIGKILL) << results[1].output;
  EXPECT_GT(waitpid(-1, nullptr, 0), 0) << "the orphan has come to this process";
}

}  // namespace
}  // namespace gimbal::test
