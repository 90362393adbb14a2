// Every endpoint under the conformance tests, and faults that their checker must see.
#include "tests/unit/transport/endpoint_conformance.h"

#include <gmock/gmock.h>

#include "tests/unit/transport/shm_pair.h"
#include "tests/unit/transport/tcp_pair.h"
#include "transport/fault_endpoint.h"
#include "transport/loopback_endpoint.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;

EndpointPair make_loopback(Channel channels, size_t slot_bytes, size_t window) {
  auto [a, b] = make_loopback_pair(0, 1, {.channels = channels, .slot_bytes = slot_bytes, .window = window});
  return {.memory = nullptr, .a = std::move(a), .b = std::move(b)};
}

EndpointPair with_faults(EndpointPair pair, const FaultPlan& plan) {
  return {.memory = pair.memory, .a = std::make_unique<FaultEndpoint>(std::move(pair.a), plan), .b = std::move(pair.b)};
}

INSTANTIATE_TEST_SUITE_P(Transport, EndpointConformance,
                         ::testing::Values(EndpointKind{"Loopback", make_loopback}, EndpointKind{"Shm", make_shm_pair},
                                           EndpointKind{"FaultWithoutFaults",
                                                        [](Channel channels, size_t slot_bytes, size_t window) {
                                                          return with_faults(make_loopback(channels, slot_bytes, window), {});
                                                        }}),
                         [](const auto& tested) { return tested.param.name; });

// The two ways of doing the system calls are equals: both under all tests, each with one stream and with several.
std::vector<EndpointKind> tcp_kinds() {
  std::vector<EndpointKind> kinds;
  for (const SocketIo io : {SocketIo::kEpoll, SocketIo::kUring}) {
    if (!SocketPoller::create(io).ok()) continue;
    const std::string name = io == SocketIo::kEpoll ? "Epoll" : "Uring";
    for (const size_t streams : {size_t{1}, size_t{3}}) {
      const auto make = [io, streams](SocketPair (*connect)()) {
        return [=](Channel channels, size_t slot_bytes, size_t window) {
          return make_tcp_endpoints({.io = io, .streams = streams, .connect = connect}, channels, slot_bytes, window);
        };
      };
      kinds.push_back({name + std::to_string(streams), make(make_tcp_pair)});
      if (streams == 1) kinds.push_back({name + "Local", make(make_local_pair)});
    }
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Tcp, EndpointConformance, ::testing::ValuesIn(tcp_kinds()),
                         [](const auto& tested) { return tested.param.name; });

Status exchange_with(const FaultPlan& plan) {
  const EndpointPair pair = with_faults(make_shm_pair(2, 100, 3), plan);
  return exchange(*pair.a, *pair.b, 100, 1);
}

TEST(ConformanceChecker, PassesAnEndpointThatOftenSaysAgain) {
  const Status status = exchange_with({.seed = 3, .again_probability = 0.5});
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ConformanceChecker, SeesAFlippedBit) {
  EXPECT_THAT(exchange_with({.corrupt_message = 50}).message(), HasSubstr("a wrong byte"));
}

TEST(ConformanceChecker, SeesALostMessage) { EXPECT_THAT(exchange_with({.drop_message = 50}).message(), HasSubstr("has tag")); }

TEST(ConformanceChecker, SeesTwoMessagesInTheWrongOrder) {
  EXPECT_THAT(exchange_with({.delay_message = 50}).message(), HasSubstr("has tag"));
}

TEST(FaultEndpoint, FailsForGoodAfterThePlannedMessages) {
  const EndpointPair pair = with_faults(make_loopback(1, 64, 8), {.fail_after = 2});
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(send_next(*pair.a, 0, i).ok());
  const Status failed = send_next(*pair.a, 0, 2).status();
  EXPECT_EQ(failed.code(), Code::kRemote);
  EXPECT_THAT(failed.message(), HasSubstr("rank 1"));
  EXPECT_EQ(pair.a->front(0).status().message(), failed.message());
  EXPECT_EQ(pair.a->progress().message(), failed.message());
}

TEST(LoopbackMesh, ConnectsEveryPairOfRanks) {
  const LoopbackMesh mesh = make_loopback_mesh(4, {.channels = 1, .slot_bytes = 16, .window = 2});
  for (size_t a = 0; a < 4; ++a) {
    EXPECT_EQ(mesh[a][a], nullptr);
    for (size_t b = 0; b < 4; ++b) {
      if (a == b) continue;
      EXPECT_EQ(mesh[a][b]->peer(), static_cast<Rank>(b));
      const Status status = exchange(*mesh[a][b], *mesh[b][a], 10, 1);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
}

}  // namespace
}  // namespace gimbal::testing
