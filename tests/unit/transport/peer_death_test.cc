// Deaths as other ranks see them: ranks as forked processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "tests/unit/transport/join_ranks.h"
#include "transport/bytes.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;

// A process that runs `body` and ends. It is killed and reaped at the latest by the destructor.
class Child {
 public:
  template <typename Body>
  explicit Child(const Body& body) : pid_(fork()) {
    if (pid_ != 0) return;
    body();
    _exit(0);
  }
  ~Child() { end(SIGKILL); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }
  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

void sleep_until_killed() {
  for (;;) pause();
}

TEST(PeerDeath, IsSeenAtOnceAndNamed) {
  const std::string rendezvous = "unix://" + unique_name();
  const BootstrapOptions rank1{.rank = 1, .size = 2, .job_key = "", .name = "", .version = 0};
  Child child([&] {
    const Joined joined = join_as(rendezvous, rank1);
    sleep_until_killed();
  });
  const pid_t pid = child.pid();
  const Joined joined = join_as(rendezvous, {.rank = 0, .size = 2, .job_key = "", .name = "", .version = 0});
  ASSERT_TRUE(joined.status.ok()) << joined.status.message();
  ASSERT_TRUE(joined.mesh->check_peers().ok());

  child.end(SIGKILL);

  const Status status = joined.mesh->check_peers();
  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 (pid " + std::to_string(pid) + " on host "));
  EXPECT_THAT(status.message(), HasSubstr("is gone: its process ended"));
  EXPECT_EQ(joined.mesh->receive(1, soon()).status().message(), status.message());
}

TEST(PeerDeath, IsNotHiddenByAChildThatInheritedTheSockets) {
  const std::string rendezvous = "unix://" + unique_name();
  int grandchild_pid[2];
  ASSERT_EQ(pipe2(grandchild_pid, O_CLOEXEC), 0);
  Child child([&] {
    const Joined joined = join_as(rendezvous, {.rank = 1, .size = 2, .job_key = "", .name = "", .version = 0});
    const pid_t pid = fork();
    if (pid == 0) sleep_until_killed();
    static_cast<void>(!write(grandchild_pid[1], &pid, sizeof(pid)));
    sleep_until_killed();
  });
  const Joined joined = join_as(rendezvous, {.rank = 0, .size = 2, .job_key = "", .name = "", .version = 0});
  ASSERT_TRUE(joined.status.ok()) << joined.status.message();
  pid_t grandchild = 0;
  ASSERT_EQ(read(grandchild_pid[0], &grandchild, sizeof(grandchild)), static_cast<ssize_t>(sizeof(grandchild)));

  child.end(SIGKILL);
  const Status checked = joined.mesh->check_peers();
  const Status received = joined.mesh->receive(1, soon()).status();

  kill(grandchild, SIGKILL);
  close(grandchild_pid[0]);
  close(grandchild_pid[1]);
  EXPECT_THAT(checked.message(), HasSubstr("is gone: its process ended"));
  EXPECT_THAT(received.message(), HasSubstr("is gone: its process ended"));
}

// Two ranks of this process and, between them, one of another, which can be killed.
struct ThreeRanks {
  std::unique_ptr<Child> rank1;
  std::unique_ptr<Bootstrap> rank0;
  std::unique_ptr<Bootstrap> rank2;
};

ThreeRanks join_three() {
  const std::string rendezvous = "unix://" + unique_name();
  const auto join = [&](Rank rank) {
    return join_as(rendezvous, {.rank = rank, .size = 3, .job_key = "", .name = "", .version = 0});
  };
  ThreeRanks ranks;
  ranks.rank1 = std::make_unique<Child>([&] {
    const Joined joined = join(1);
    sleep_until_killed();
  });
  auto joined = run_ranks(2, [&](Rank thread) { return join(thread * 2); });
  EXPECT_TRUE(joined[0].status.ok() && joined[1].status.ok()) << joined[0].status.message() << joined[1].status.message();
  ranks.rank0 = std::move(joined[0].mesh);
  ranks.rank2 = std::move(joined[1].mesh);
  return ranks;
}

TEST(PeerDeath, EndsAGatherThatWaitsForTheDeadAndNamesItOnEveryRank) {
  ThreeRanks ranks = join_three();
  ASSERT_FALSE(HasFailure());
  const auto statuses = run_ranks(2, [&](Rank thread) {
    // A rank that fails closes its mesh at once: what the other one reports must still be the death.
    const std::unique_ptr<Bootstrap> mesh = std::move(thread == 0 ? ranks.rank0 : ranks.rank2);
    if (thread == 0) ranks.rank1->end(SIGKILL);
    return mesh->all_gather(as_bytes("x"), soon()).status();
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::kRemote);
    EXPECT_THAT(status.message(), HasSubstr("rank 1 (pid "));
  }
}

// Why a rank gives up reaches those who only see it go.
TEST(PeerDeath, IsNotSuspectedOfARankThatSaidWhyItGivesUp) {
  ThreeRanks ranks = join_three();
  ASSERT_FALSE(HasFailure());
  const auto statuses = run_ranks(2, [&](Rank thread) -> Status {
    const std::unique_ptr<Bootstrap> mesh = std::move(thread == 0 ? ranks.rank0 : ranks.rank2);
    if (thread == 1) return mesh->all_gather(as_bytes("x"), soon()).status();
    mesh->tell_fault(Status(Code::kNoMemory, "rank 0 has no memory for this"));
    return {};
  });
  EXPECT_EQ(statuses[1].code(), Code::kNoMemory);
  EXPECT_EQ(statuses[1].message(), "rank 0 has no memory for this");
}

TEST(PeerDeath, LeavesTheSurvivorsAMeshOfTheirOwn) {
  ThreeRanks ranks = join_three();
  ASSERT_FALSE(HasFailure());
  ranks.rank1->end(SIGKILL);
  const auto statuses = run_ranks(2, [&](Rank thread) -> Status {
    Bootstrap& mesh = thread == 0 ? *ranks.rank0 : *ranks.rank2;
    EXPECT_EQ(mesh.check_peers().code(), Code::kRemote);
    EXPECT_EQ(mesh.gone(), std::vector<Rank>{1});
    const std::vector<Rank> survivors = {0, 2};
    ASSIGN_OR_RETURN(const std::unique_ptr<Bootstrap> shrunk, mesh.derive(survivors, "shrunk", 1, soon()));
    ASSIGN_OR_RETURN(const auto values, shrunk->all_gather(as_bytes(std::to_string(thread)), soon()));
    EXPECT_EQ(to_text(values[0]) + to_text(values[1]), "01");
    return {};
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
}

TEST(PeerDeath, OfRankZeroDuringJoiningIsNamed) {
  const std::string rendezvous = "unix://" + unique_name();
  Child rank0([&] { static_cast<void>(join_as(rendezvous, {.rank = 0, .size = 3, .job_key = "", .name = "", .version = 0})); });
  const std::unique_ptr<Store> probe = open_store(rendezvous, 1, "", soon()).value();
  ASSERT_TRUE(probe->wait("gimbal/world/arrival/1", soon()).ok());

  rank0.end(SIGKILL);

  EXPECT_EQ(probe->wait("gimbal/world/verdict/0", soon()).message(),
            "the store at " + rendezvous + " is gone: rank 0 closed it or its process ended");
}

TEST(FileStore, AfterACrashTheNextJobStartsAndIsNotFooled) {
  const std::string folder = ::testing::TempDir() + unique_name();
  const std::string rendezvous = "file://" + folder;
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  Child crashed([&] {
    const std::unique_ptr<Store> store = open_store(rendezvous, 0, "", soon()).value();
    static_cast<void>(store->set("left over", as_bytes("stale")));
    static_cast<void>(!write(ready[1], "x", 1));
    sleep_until_killed();
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(open_store(rendezvous, 0, "", soon()).status().message(), rendezvous + " is in use by another job");
  const std::unique_ptr<Store> orphan = open_store(rendezvous, 1, "", soon()).value();

  crashed.end(SIGKILL);

  EXPECT_THAT(orphan->get("never", soon()).status().message(), HasSubstr("is gone: rank 0 closed it or its process ended"));
  EXPECT_THAT(open_store(rendezvous, 1, "", Deadline::after_ms(20)).status().message(), HasSubstr("is rank 0 running?"))
      << "a session without its rank 0 is not joined";
  const std::unique_ptr<Store> next = open_store(rendezvous, 0, "", soon()).value();
  EXPECT_EQ(next->get("left over", Deadline::after_ms(0)).status().code(), Code::kTimeout);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace gimbal::testing
