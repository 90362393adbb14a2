// Connecting a mesh by hand: strangers at the listener, forged proofs, ranks that never come.
#include "transport/mesh_connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/transport/rank_threads.h"
#include "transport/socket.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;

Deadline soon() { return Deadline::after_ms(30'000); }

struct Listeners {
  std::vector<FileDescriptor> sockets;
  Roster roster;
};

Listeners open_listeners(Rank ranks) {
  Listeners listeners;
  listeners.roster.nonce = random_nonce();
  for (Rank rank = 0; rank < ranks; ++rank) {
    ControlListener listener = open_control_listener().value();
    JoinRecord record = describe_self();
    record.rank = rank;
    record.size = ranks;
    record.control_address = listener.address;
    listeners.roster.records.push_back(record);
    listeners.sockets.push_back(std::move(listener.socket));
  }
  return listeners;
}

MeshPlan plan_of(const Listeners& listeners, Rank rank, const std::string& key) {
  return {.rank = rank, .name = "world", .job_key = JobKey(key), .roster = listeners.roster};
}

int count_connected(const std::vector<FileDescriptor>& sockets) {
  int count = 0;
  for (const FileDescriptor& socket : sockets) count += socket.valid() ? 1 : 0;
  return count;
}

TEST(MeshConnect, DropsStrangersAndConnectsItsRanks) {
  const Listeners listeners = open_listeners(3);
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 60; ++i) {
    const JoinRecord& target = listeners.roster.records[static_cast<size_t>(i % 3)];
    strangers.push_back(std::move(connect_to(abstract_address(target.control_address), soon()).fd));
    ASSERT_TRUE(strangers.back().valid());
    const MeshHello forged = {.from = 2, .to = 0, .proof = {}};
    const Bytes words[] = {{}, Bytes(3), Bytes(10'000), encode(forged)};
    static_cast<void>(write_some(strangers.back().get(), words[i % 4]));
  }
  const auto meshes = run_ranks(3, [&](Rank rank) {
    return connect_mesh(plan_of(listeners, rank, "key"), listeners.sockets[static_cast<size_t>(rank)].get(), soon());
  });
  for (const auto& mesh : meshes) {
    ASSERT_TRUE(mesh.ok()) << mesh.status().message();
    EXPECT_EQ(count_connected(*mesh), 2);
  }
}

TEST(MeshConnect, DoesNotAcceptARankWithAnotherKey) {
  const Listeners listeners = open_listeners(2);
  const auto meshes = run_ranks(2, [&](Rank rank) {
    const Deadline deadline = rank == 0 ? Deadline::after_ms(200) : soon();
    const std::string key = rank == 0 ? "right" : "wrong";
    return connect_mesh(plan_of(listeners, rank, key), listeners.sockets[static_cast<size_t>(rank)].get(), deadline);
  });
  EXPECT_EQ(meshes[0].status().code(), Code::kTimeout);
  EXPECT_EQ(meshes[0].status().message(), "rank 0 of \"world\" has no control connection to these ranks at the deadline: 1");
  EXPECT_EQ(meshes[1].status().code(), Code::kRemote);
}

TEST(MeshConnect, NamesARankOfAnotherHostAsUnsupported) {
  Listeners listeners = open_listeners(2);
  JoinRecord& far = listeners.roster.records[0];
  far.host = "elsewhere";
  far.node = "another boot/1/1";
  far.control_address = "gimbal-control-" + unique_name();
  const Status status = connect_mesh(plan_of(listeners, 1, ""), listeners.sockets[1].get(), soon()).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 (pid "));
  EXPECT_THAT(status.message(), HasSubstr("on host elsewhere) cannot be reached from rank 1"));
  EXPECT_THAT(status.message(), HasSubstr("serves the ranks of one host only"));
}

TEST(MeshConnect, NamesARankThatEndedBeforeItWasReached) {
  Listeners listeners = open_listeners(2);
  listeners.sockets[0].reset();
  const Status status = connect_mesh(plan_of(listeners, 1, ""), listeners.sockets[1].get(), soon()).status();
  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), HasSubstr("is gone: it closed its control connection while \"world\" was being connected"));
}

// Its socket is still open here, as a child's copy would be, and nobody has waited for it yet.
TEST(MeshConnect, NamesADeadRankThatNeverConnects) {
  Listeners listeners = open_listeners(2);
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  siginfo_t ended = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(dead), &ended, WEXITED | WNOWAIT), 0);
  listeners.roster.records[1].pid = dead;

  const Status status = connect_mesh(plan_of(listeners, 0, ""), listeners.sockets[0].get(), soon()).status();
  waitpid(dead, nullptr, 0);

  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 (pid " + std::to_string(dead)));
  EXPECT_THAT(status.message(), HasSubstr("is gone: its process ended while \"world\" was being connected"));
}

}  // namespace
}  // namespace gimbal::testing
