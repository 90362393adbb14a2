// What the verbs endpoint does with links and queue pairs that fail in the middle: of tests/support/hostile_verbs, which alone
// can be told to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scoped_environment.h"
#include "tests/verbs/seeds.h"
#include "tests/verbs/verbs_pair.h"

namespace gimbal::testing {
namespace {

using test::ScopedEnvironment;

constexpr Channel kChannels = 2;
constexpr size_t kSlotBytes = 20'000;
constexpr uint64_t kMessages = 150;

class VerbsFaultSeeds : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const std::vector<VerbsPort> ports = usable_ports();
    if (ports.size() != 2 || ports[0].device != "hostile0") GTEST_SKIP() << "GIMBAL_IBV_SO is not tests/support/hostile_verbs";
  }
  // The fault's number, a different place of the exchange with every seed.
  static std::string at(uint64_t first = 20) {
    return "@" + std::to_string(first + static_cast<uint64_t>(GetParam()) * 13 % 200);
  }
  // Both ways, one after the other, while the plan does its work.
  static Status exchange_with(const std::string& plan) {
    const ScopedEnvironment faults("HOSTILE_VERBS_PLAN", plan);
    VerbsPair pair = make_verbs_pair({.rails = 2, .queue_pairs = 2, .crosses = false, .timeout = 8}, kChannels, kSlotBytes, 4);
    RETURN_IF_ERROR(exchange(*pair.a, *pair.b, kMessages, 1));
    return exchange(*pair.b, *pair.a, kMessages, 2);
  }

 private:
  ScopedEnvironment seed_{"HOSTILE_VERBS_SEED", std::to_string(GetParam())};
};

TEST_P(VerbsFaultSeeds, ALinkThatIsCutLosesNoMessage) {
  const Status status = exchange_with("link_down" + at() + "=hostile1/1");
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_P(VerbsFaultSeeds, AQueuePairThatBreaksLosesNoMessage) {
  const Status status = exchange_with("qp_error" + at() + "=hostile0");
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_P(VerbsFaultSeeds, TheLastLinksEndIsARemoteErrorThatNamesPeerDeviceAndCause) {
  const Status status = exchange_with("link_down" + at() + "=hostile0/1,link_down@40=hostile1/1");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("(pid 7 on host b)"));
  EXPECT_THAT(status.message(), ::testing::HasSubstr("hostile"));
  EXPECT_THAT(status.message(), ::testing::HasSubstr("GID"));
  EXPECT_THAT(status.message(),
              ::testing::AnyOf(::testing::HasSubstr("transport retry counter exceeded"), ::testing::HasSubstr("port")));
}

std::vector<int> fault_seeds() {
  const std::vector<int> seeds = test_seeds();
  return seeds.empty() ? std::vector<int>{0} : seeds;
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerbsFaultSeeds, ::testing::ValuesIn(fault_seeds()),
                         [](const auto& tested) { return "Seed" + std::to_string(tested.param); });

}  // namespace
}  // namespace gimbal::testing
