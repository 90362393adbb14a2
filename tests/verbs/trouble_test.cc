// What an endpoint says of queue pairs, memory and devices that fail, and what wakes its sleeper, over
// tests/support/hostile_verbs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <thread>

#include "base/deadline.h"
#include "tests/support/scoped_environment.h"
#include "tests/verbs/verbs_pair.h"

namespace gimbal::testing {
namespace {

using test::ScopedEnvironment;
using ::testing::AllOf;
using ::testing::HasSubstr;

class VerbsTrouble : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<VerbsPort> ports = usable_ports();
    if (ports.empty() || !ports[0].device.starts_with("hostile")) GTEST_SKIP() << "faults are planted in hostile_verbs only";
  }

  // Keeps the lines of both sides.
  VerbsPair make(const VerbsPairOptions& options, Channel channels = 2, size_t slot_bytes = 5000, size_t window = 4) {
    VerbsPairOptions logged = options;
    logged.log = Log([this](LogLevel, const std::string& line) { lines_.push_back(line); });
    return make_verbs_pair(logged, channels, slot_bytes, window);
  }
  [[nodiscard]] size_t lines_with(const std::string& text) const {
    return static_cast<size_t>(
        std::ranges::count_if(lines_, [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }

  std::vector<std::string> lines_;
};

TEST_F(VerbsTrouble, ALostRailIsSaidInOneLineOfEachSide) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "link_down@60=hostile1/1");
  const VerbsPair pair = make({.rails = 2, .queue_pairs = 2, .crosses = false, .timeout = 8}, 2, 200'000, 3);
  ASSERT_TRUE(exchange(*pair.a, *pair.b, 100, 1).ok());
  ASSERT_TRUE(exchange(*pair.b, *pair.a, 100, 2).ok());
  EXPECT_GE(lines_.size(), 1u);
  EXPECT_LE(lines_.size(), 2u);
  EXPECT_EQ(lines_with("hostile1:1 (GID"), lines_.size());
}

TEST_F(VerbsTrouble, QueuePairsMayFailOneAfterTheOther) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const ScopedEnvironment seeded("HOSTILE_VERBS_SEED", std::to_string(seed));
    const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "qp_error@30=hostile0,qp_error@90=hostile1,qp_error@150=hostile0");
    const VerbsPair pair = make({.queue_pairs = 4}, 2, 200'000, 3);
    const Status status = exchange(*pair.a, *pair.b, 60, seed);
    EXPECT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
  }
}

TEST_F(VerbsTrouble, TheLastQueuePairsDeathNamesPeerPortAddressAndStatus) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "qp_error@20=hostile0");
  const VerbsPair pair = make({.queue_pairs = 1});
  const Status status = exchange(*pair.a, *pair.b, 300, 1);
  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("(pid 7 on host b) is lost: no queue pair to it is left, the last was hostile"),
                                      HasSubstr(":1 (GID "), HasSubstr(") to hostile")));
  EXPECT_EQ(pair.a->acquire(0, 1).ok() && pair.b->acquire(0, 1).ok(), false) << "an error is final";
}

TEST_F(VerbsTrouble, SaysHowMuchMemoryWasWantedWhenNoneMayBeLocked) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "memlock=4096");
  const auto library = VerbsLibrary::load().value();
  const Status status = VerbsPoller::create(library, usable_ports(), 1 << 20).status();
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("hostile0:1"), HasSubstr("1048576 bytes"), HasSubstr("RLIMIT_MEMLOCK")));
}

TEST_F(VerbsTrouble, AQueuePairThatCannotBeMadeIsAnError) {
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN",
                               "create_qp@2=ENOMEM,create_qp@3=ENOMEM,create_qp@4=ENOMEM,create_qp@5=ENOMEM");
  const auto library = VerbsLibrary::load().value();
  const std::vector<VerbsPort> ports = usable_ports();
  VerbsEndpointOptions options;
  options.slots = {.channels = 1, .slot_bytes = 64, .window = 2};
  options.ways = {{.rail = 0, .route = find_route(ports[0], ports[0], {}).value(), .name = "way"}};
  const auto poller = VerbsPoller::create(library, {ports.data(), 1}, 1 << 16).value();
  EXPECT_EQ(VerbsEndpoint::create(*poller, options).status().code(), Code::kNoMemory);
}

TEST_F(VerbsTrouble, ASleeperIsWokenByWhatArrives) {
  const VerbsPair pair = make({});
  pollfd polled = {.fd = pair.pollers->b->fd(), .events = POLLIN, .revents = 0};
  for (uint64_t i = 0; i < 20; ++i) {
    while (!pair.pollers->b->may_sleep()) {
    }
    ASSERT_FALSE(pair.b->front(0).value().has_value());
    std::thread sender([&] { ASSERT_TRUE(send_next(*pair.a, 0, i).value()); });
    EXPECT_EQ(poll(&polled, 1, 10'000), 1);
    sender.join();
    const Deadline deadline = Deadline::after_ms(10'000);
    while (!take_next(*pair.b, 0, i).value() && !deadline.passed()) ASSERT_TRUE(pair.b->progress().ok());
    ASSERT_TRUE(pair.a->progress().ok());
  }
}

TEST_F(VerbsTrouble, KnowsWhetherADeviceTakesGpuMemory) {
  const auto library = VerbsLibrary::load().value();
  const auto rail = VerbsRail::open(library, usable_ports()[0]).value();
  EXPECT_TRUE(probe_dmabuf(*rail).ok());
}

}  // namespace
}  // namespace gimbal::testing
