// Data streams between ranks: threads of this process, whose mesh finds each other's TCP addresses.
#include "transport/tcp_connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/transport/endpoint_exchange.h"
#include "tests/unit/transport/join_ranks.h"
#include "tests/unit/transport/rank_threads.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;

std::vector<Rank> all_but(Rank rank, Rank ranks) {
  std::vector<Rank> others;
  for (Rank other = 0; other < ranks; ++other) {
    if (other != rank) others.push_back(other);
  }
  return others;
}

class TcpConnectTest : public ::testing::Test {
 protected:
  static constexpr Rank kRanks = 3;
  TcpConnectTest() : meshes_(make_meshes(kRanks, "memory://" + unique_name())) {}
  Bootstrap& mesh(Rank rank) { return *meshes_[static_cast<size_t>(rank)]; }

  std::vector<std::unique_ptr<Bootstrap>> meshes_;
};

TEST(StreamsFor, GrowWithTheRate) {
  EXPECT_EQ(streams_for(0), 2u);
  EXPECT_EQ(streams_for(1'000), 1u);
  EXPECT_EQ(streams_for(25'000), 1u);
  EXPECT_EQ(streams_for(100'000), 4u);
  EXPECT_EQ(streams_for(800'000), 8u);
}

// Every rank sends every other one its messages over the streams that both made, on two lanes.
TEST_F(TcpConnectTest, EveryPairOfRanksIsConnectedOnEveryLane) {
  const auto statuses = run_ranks(kRanks, [&](Rank rank) -> Status {
    ASSIGN_OR_RETURN(const auto connector, TcpConnector::create(mesh(rank), rank, 2, soon()));
    const std::vector<Rank> peers = all_but(rank, kRanks);
    for (const uint32_t lane : {0u, 1u}) {
      ASSIGN_OR_RETURN(auto sockets, connector->connect(peers, lane, connector->streams(), soon()));
      ASSIGN_OR_RETURN(const auto poller, SocketPoller::create(SocketIo::kEpoll));
      std::vector<std::unique_ptr<TcpEndpoint>> endpoints;
      for (size_t i = 0; i < peers.size(); ++i) {
        if (sockets[i].size() != 2) return {Code::kInternal, "not two streams"};
        TcpEndpointOptions options = connector->describe(peers[i]);
        options.slot_bytes = 1000;
        options.window = 4;
        ASSIGN_OR_RETURN(auto endpoint, TcpEndpoint::create(options, std::move(sockets[i]), *poller));
        endpoints.push_back(std::move(endpoint));
      }
      // The index of the message says who sent it to whom.
      for (size_t i = 0; i < peers.size(); ++i) {
        const auto index = static_cast<uint64_t>(rank * kRanks + peers[i]);
        ASSIGN_OR_RETURN(const bool sent, send_next(*endpoints[i], 0, index));
        if (!sent) return {Code::kInternal, "a new endpoint has no room"};
      }
      for (size_t i = 0; i < peers.size(); ++i) {
        const auto index = static_cast<uint64_t>(peers[i] * kRanks + rank);
        const Deadline deadline = soon();
        for (bool taken = false; !taken;) {
          if (deadline.passed()) return {Code::kTimeout, "nothing came from rank " + std::to_string(peers[i])};
          RETURN_IF_ERROR(endpoints[i]->progress());
          ASSIGN_OR_RETURN(taken, take_next(*endpoints[i], 0, index));
        }
      }
      // An endpoint that is destroyed closes its streams, which a peer may still read.
      RETURN_IF_ERROR(mesh(rank).all_gather({}, soon()));
    }
    return {};
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(TcpConnectTest, RanksAgreeOnTheNumberOfStreams) {
  const auto counts =
      run_ranks(kRanks, [&](Rank rank) { return TcpConnector::create(mesh(rank), rank, 0, soon()).value()->streams(); });
  EXPECT_THAT(counts, ::testing::Each(counts[0]));
  EXPECT_GE(counts[0], 1u);
}

TEST_F(TcpConnectTest, DifferentNumbersOfStreamsAreAMismatchOnAllRanks) {
  const auto statuses =
      run_ranks(kRanks, [&](Rank rank) { return TcpConnector::create(mesh(rank), rank, rank == 2 ? 4 : 0, soon()).status(); });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_THAT(status.message(), HasSubstr("GIMBAL_TCP_STREAMS is not set on rank 0, 4 on rank 2"));
  }
}

TEST_F(TcpConnectTest, ARankThatDoesNotConnectIsNamedAtTheDeadline) {
  const auto statuses = run_ranks(kRanks, [&](Rank rank) -> Status {
    ASSIGN_OR_RETURN(const auto connector, TcpConnector::create(mesh(rank), rank, 1, soon()));
    Status status;
    if (rank == 0) status = connector->connect(std::vector<Rank>{2}, 0, 1, Deadline::after_ms(50)).status();
    RETURN_IF_ERROR(mesh(rank).all_gather({}, soon()));
    return status;
  });
  EXPECT_EQ(statuses[0].code(), Code::kTimeout);
  EXPECT_THAT(statuses[0].message(), HasSubstr("no data streams at the deadline between rank 0 and rank 2 (pid "));
}

}  // namespace
}  // namespace gimbal::testing
