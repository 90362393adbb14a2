// Connecting a mesh by hand: strangers at the listener, forged proofs, ranks that never come.
#include "transport/mesh_connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/transport/free_port.h"
#include "tests/unit/transport/rank_threads.h"
#include "transport/socket.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;

Deadline soon() { return Deadline::after_ms(30'000); }

struct Listeners {
  std::vector<ControlListener> controls;
  Roster roster;

  [[nodiscard]] KeyedListener& of(Rank rank) const { return *controls[static_cast<size_t>(rank)].listener; }
};

Listeners open_listeners(Rank ranks, bool for_other_hosts = false) {
  Listeners listeners;
  listeners.roster.nonce = random_nonce();
  for (Rank rank = 0; rank < ranks; ++rank) {
    ControlListener control = open_control_listener(for_other_hosts).value();
    JoinRecord record = describe_self();
    record.rank = rank;
    record.size = ranks;
    record.control_address = control.name;
    record.port = control.port;
    listeners.roster.records.push_back(record);
    listeners.controls.push_back(std::move(control));
  }
  return listeners;
}

constexpr IpAddress kLoopback = [] {
  IpAddress ip = {};
  ip[10] = ip[11] = std::byte{0xff};
  ip[12] = std::byte{127};
  ip[15] = std::byte{1};
  return ip;
}();

// As if every rank were on a host of its own, which the others reach by these addresses.
Listeners open_far_listeners(Rank ranks, const std::vector<IpAddress>& addresses) {
  Listeners listeners = open_listeners(ranks, true);
  for (JoinRecord& record : listeners.roster.records) {
    record.node = "host " + std::to_string(record.rank);
    record.control_address = "gimbal-control-" + unique_name();
    for (const IpAddress& ip : addresses) record.candidates.push_back({.interface = "eth0", .ip = ip});
  }
  return listeners;
}

MeshPlan plan_of(const Listeners& listeners, Rank rank, const std::string& key) {
  MeshPlan plan;
  plan.rank = rank;
  plan.name = "world";
  plan.job_key = JobKey(key);
  plan.roster = listeners.roster;
  return plan;
}

int count_connected(const std::vector<PeerSocket>& peers) {
  int count = 0;
  for (const PeerSocket& peer : peers) count += peer.socket.valid() ? 1 : 0;
  return count;
}

TEST(MeshConnect, DropsStrangersAndConnectsItsRanks) {
  const Listeners listeners = open_listeners(3);
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 60; ++i) {
    const JoinRecord& target = listeners.roster.records[static_cast<size_t>(i % 3)];
    strangers.push_back(std::move(connect_to(abstract_address(target.control_address), soon()).fd));
    ASSERT_TRUE(strangers.back().valid());
    const ClientHello forged = {.job = {}, .claim = {.purpose = Purpose::kControl, .from = 2, .to = 0}, .nonce = {}};
    const Bytes words[] = {{}, Bytes(3), Bytes(10'000), encode(forged)};
    static_cast<void>(write_some(strangers.back().get(), words[i % 4]));
  }
  const auto meshes =
      run_ranks(3, [&](Rank rank) { return connect_mesh(plan_of(listeners, rank, "key"), listeners.of(rank), soon()); });
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
    return connect_mesh(plan_of(listeners, rank, key), listeners.of(rank), deadline);
  });
  EXPECT_EQ(meshes[0].status().code(), Code::kTimeout);
  EXPECT_EQ(meshes[0].status().message(), "rank 0 of \"world\" has no control connection to these ranks at the deadline: 1");
  EXPECT_EQ(meshes[1].status().code(), Code::kRemote);
}

TEST(MeshConnect, ReachesRanksThatShareNoMemoryOverTcp) {
  const Listeners listeners = open_far_listeners(3, {kLoopback});
  const auto meshes =
      run_ranks(3, [&](Rank rank) { return connect_mesh(plan_of(listeners, rank, "key"), listeners.of(rank), soon()); });
  for (const auto& mesh : meshes) {
    ASSERT_TRUE(mesh.ok()) << mesh.status().message();
    EXPECT_EQ(count_connected(*mesh), 2);
    for (const PeerSocket& peer : *mesh) EXPECT_FALSE(peer.shares_memory);
  }
}

// 192.0.2.0/24 belongs to nobody.
TEST(MeshConnect, GoesOnToTheNextAddressWhenOneLeadsNowhere) {
  IpAddress nowhere = kLoopback;
  nowhere[12] = std::byte{192};
  nowhere[14] = std::byte{2};
  const Listeners listeners = open_far_listeners(2, {nowhere, kLoopback});
  const auto meshes =
      run_ranks(2, [&](Rank rank) { return connect_mesh(plan_of(listeners, rank, "key"), listeners.of(rank), soon()); });
  for (const auto& mesh : meshes) EXPECT_TRUE(mesh.ok()) << mesh.status().message();
}

TEST(MeshConnect, NamesEveryAddressOfARankThatCannotBeReached) {
  Listeners listeners = open_far_listeners(2, {kLoopback});
  listeners.roster.records[0].port = free_port();
  listeners.roster.records[0].host = "elsewhere";
  const Status status = connect_mesh(plan_of(listeners, 1, ""), listeners.of(1), soon()).status();
  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), HasSubstr("on host elsewhere) cannot be reached from rank 1 (pid "));
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1:" + std::to_string(listeners.roster.records[0].port) +
                                          " could not be reached (Connection refused)"));
}

TEST(MeshConnect, NamesARankThatEndedBeforeItWasReached) {
  Listeners listeners = open_listeners(2);
  listeners.controls[0].listener.reset();
  const Status status = connect_mesh(plan_of(listeners, 1, ""), listeners.of(1), soon()).status();
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

  const Status status = connect_mesh(plan_of(listeners, 0, ""), listeners.of(0), soon()).status();
  waitpid(dead, nullptr, 0);

  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 (pid " + std::to_string(dead)));
  EXPECT_THAT(status.message(), HasSubstr("is gone: its process ended while \"world\" was being connected"));
}

}  // namespace
}  // namespace gimbal::testing
