// The mesh between emulated hosts: how ranks reach each other, which are a node, and how deaths are seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/support/command.h"
#include "tests/unit/transport/host_ranks.h"
#include "tests/unit/transport/join_ranks.h"
#include "transport/bytes.h"

namespace gimbal::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kLinkTimeoutMs = 2000;

class AcrossHosts : public ::testing::Test {
 protected:
  void start(size_t count) {
    Result<std::unique_ptr<test::Hosts>> started = test::Hosts::start(count);
    if (!started.ok()) GTEST_SKIP() << started.status().message();
    hosts_ = std::move(started).value();
    // Rank 0 serves it on host 0. Ports of hosts of one's own are free.
    rendezvous_ = "tcp://" + (*hosts_)[0].address + ":4021";
  }
  void configure(size_t host, const std::string& commands) {
    const test::CommandResult result = test::run_command(hosts_->inside(host, {"sh", "-ec", commands}));
    ASSERT_EQ(result.status, 0) << result.err;
  }
  [[nodiscard]] Joined join(Rank rank, Rank size, const std::string& interfaces = "") const {
    BootstrapOptions options{.rank = rank, .size = size, .job_key = "secret", .name = "", .version = 0};
    options.interfaces = interfaces;
    options.link_timeout_ms = kLinkTimeoutMs;
    return join_as(rendezvous_, options);
  }

  std::unique_ptr<test::Hosts> hosts_;
  std::string rendezvous_;
};

TEST_F(AcrossHosts, RanksOfOneHostAreANodeAndTheOthersAreReachedOverTcp) {
  start(2);
  if (IsSkipped()) return;
  const auto answers = run_on_hosts(*hosts_, {2, 1}, [&](Rank rank) {
    const Joined joined = join(rank, 3);
    if (!joined.status.ok()) return joined.status.message();
    const Result<std::vector<Bytes>> values = joined.mesh->all_gather(as_bytes(std::to_string(rank)), soon());
    std::string text = values.ok() ? "" : values.status().message();
    for (Rank peer = 0; peer < 3 && values.ok(); ++peer) {
      const PeerIdentity& identity = joined.mesh->peers()[static_cast<size_t>(peer)];
      text += to_text((*values)[static_cast<size_t>(peer)]) + " on node " + std::to_string(identity.node);
      text += identity.control_address.starts_with("unix:")
                  ? " by unix; "
                  : " at " + identity.control_address + " by " + identity.interface + "; ";
    }
    return text;
  });
  EXPECT_EQ(answers[0], "0 on node 0 by unix; 1 on node 0 by unix; 2 on node 1 at 10.77.0.2 by eth0; ");
  EXPECT_EQ(answers[1], answers[0]);
  EXPECT_EQ(answers[2], "0 on node 0 at 10.77.0.1 by eth0; 1 on node 0 at 10.77.0.1 by eth0; 2 on node 1 by unix; ");
}

TEST_F(AcrossHosts, ADerivedMeshReachesItsMembersToo) {
  start(2);
  if (IsSkipped()) return;
  const auto answers = run_on_hosts(*hosts_, {2, 2}, [&](Rank rank) -> std::string {
    const Joined joined = join(rank, 4);
    if (!joined.status.ok()) return joined.status.message();
    if (rank == 1) return "3102";
    const std::vector<Rank> members = {3, 0, 2};
    Result<std::unique_ptr<Bootstrap>> derived = joined.mesh->derive(members, "part", 1, soon());
    if (!derived.ok()) return derived.status().message();
    const Result<std::vector<Bytes>> values = (*derived)->all_gather(as_bytes(std::to_string(rank)), soon());
    if (!values.ok()) return values.status().message();
    std::string nodes;
    for (const PeerIdentity& peer : (*derived)->peers()) nodes += std::to_string(peer.node);
    return to_text((*values)[0]) + to_text((*values)[1]) + to_text((*values)[2]) + " nodes " + nodes;
  });
  EXPECT_THAT(answers, ElementsAre("302 nodes 010", "3102", "302 nodes 010", "302 nodes 010"));
}

// Case C24: bridges of one address on both hosts, listed first, and a crowd of other interfaces.
TEST_F(AcrossHosts, AddressesThatLeadNowhereDoNotHinder) {
  start(2);
  if (IsSkipped()) return;
  for (size_t host = 0; host < 2; ++host) {
    const std::string side = std::to_string(host + 1);
    configure(host,
              "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up;"
              "ip link add virbr0 type bridge; ip addr add 192.168.122.1/24 dev virbr0; ip link set virbr0 up;"
              "for i in 1 2 3 4 5; do ip link add v$i type veth peer name w$i; ip addr add 10.30.$i." +
                  side +
                  "/32 dev v$i; ip link set v$i up; done;"
                  "ip addr add 10.9.0." +
                  side + "/24 dev eth0");
  }
  if (HasFatalFailure()) return;
  const auto answers = run_on_hosts(*hosts_, {1, 1}, [&](Rank rank) {
    const Joined joined = join(rank, 2);
    return joined.status.ok() ? joined.mesh->peers()[static_cast<size_t>(1 - rank)].interface : joined.status.message();
  });
  EXPECT_THAT(answers, Each(std::string("eth0")));
}

// Case C22: as Debian writes /etc/hosts, every host knows its own name as 127.0.1.1.
TEST_F(AcrossHosts, AHostThatKnowsItsNameAsLoopbackIsReachedByIt) {
  start(2);
  if (IsSkipped()) return;
  for (size_t host = 0; host < 2; ++host) {
    const std::string name = "host" + std::to_string(host);
    configure(host, "sed '/ " + name + "$/d' /etc/hosts > /dev/shm/own; echo '127.0.1.1 " + name +
                        "' >> /dev/shm/own; cat /dev/shm/own > /etc/hosts");
  }
  if (HasFatalFailure()) return;
  rendezvous_ = "tcp://host0:4021";
  const auto answers = run_on_hosts(*hosts_, {1, 1}, [&](Rank rank) {
    const Joined joined = join(rank, 2);
    return joined.status.ok() ? joined.mesh->peers()[static_cast<size_t>(1 - rank)].control_address : joined.status.message();
  });
  EXPECT_THAT(answers, ElementsAre((*hosts_)[1].address, (*hosts_)[0].address));
}

TEST_F(AcrossHosts, LinkLocalAddressesAloneSuffice) {
  start(2);
  if (IsSkipped()) return;
  rendezvous_ = "file://" + ::testing::TempDir() + unique_name();
  for (size_t host = 0; host < 2; ++host) configure(host, "ip -4 addr flush dev eth0; ip -6 addr flush dev eth0 scope global");
  if (HasFatalFailure()) return;
  const auto answers = run_on_hosts(*hosts_, {1, 1}, [&](Rank rank) {
    const Joined joined = join(rank, 2);
    return joined.status.ok() ? joined.mesh->peers()[static_cast<size_t>(1 - rank)].control_address : joined.status.message();
  });
  EXPECT_THAT(answers, ElementsAre((*hosts_)[1].link_local, (*hosts_)[0].link_local));
}

TEST_F(AcrossHosts, AHostWithoutAnInterfaceIsNamed) {
  start(2);
  if (IsSkipped()) return;
  const auto answers =
      run_on_hosts(*hosts_, {1, 1}, [&](Rank rank) { return join(rank, 2, rank == 0 ? "=lo" : "").status.message(); });
  EXPECT_THAT(answers, Each(HasSubstr("cannot reach each other: they share no memory, and no usable network interface is up on "
                                      "host host0")));
}

TEST_F(AcrossHosts, AnInterfaceThatDoesNotExistIsNamedAtOnce) {
  start(1);
  if (IsSkipped()) return;
  const auto answers = run_on_hosts(*hosts_, {1}, [&](Rank rank) { return join(rank, 2, "eth99").status.message(); });
  EXPECT_EQ(answers[0], "GIMBAL_SOCKET_IFNAME: interface \"eth99\" not found; available: lo, eth0");
}

// What rank 1 says of rank 0 once it is gone.
std::string wait_for_death(Bootstrap& mesh) {
  const Deadline deadline = soon();
  for (;;) {
    const Status status = mesh.check_peers();
    if (!status.ok()) return status.message();
    if (deadline.passed()) return "nothing was seen";
    poll(nullptr, 0, 5);
  }
}

class DeathAcrossHosts : public AcrossHosts {
 protected:
  // Rank 0 on host 0 and rank 1 on host 1, joined; each says what it hears of the other's end.
  void join_two() {
    start(2);
    for (Rank rank = 0; !IsSkipped() && rank < 2; ++rank) {
      ranks_.emplace_back(*hosts_, static_cast<size_t>(rank), [this, rank](const HostRank::Say& say) {
        const Joined joined = join(rank, 2);
        say(joined.status.message());
        if (joined.status.ok()) say(wait_for_death(*joined.mesh));
      });
    }
    for (HostRank& rank : ranks_) ASSERT_EQ(rank.answer(), "");
  }
  std::vector<HostRank> ranks_;
};

TEST_F(DeathAcrossHosts, OfAProcessIsSeen) {
  join_two();
  if (IsSkipped() || HasFatalFailure()) return;
  ranks_[0].end(SIGKILL);
  EXPECT_THAT(ranks_[1].answer(), AllOf(StartsWith("rank 0 (pid "), HasSubstr("on host host0) is gone: it closed")));
}

TEST_F(DeathAcrossHosts, OfAHostIsSeenWithinTheLinkTimeout) {
  join_two();
  if (IsSkipped() || HasFatalFailure()) return;
  hosts_->cut(0);
  EXPECT_THAT(ranks_[1].answer(),
              AllOf(StartsWith("rank 0 (pid "), HasSubstr("is gone: its host, or the way there, does not answer")));
}

}  // namespace
}  // namespace gimbal::testing
