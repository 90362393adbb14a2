// Case C21: ranks that are twice there, missing or outside their world are errors at once or at the connect deadline, on every
// rank, that say which.
#include <gmock/gmock.h>

#include "tests/support/scenario.h"
#include "tests/support/scoped_environment.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

struct Identity {
  int32_t rank;
  int32_t size;
};

struct Outcome {
  gimbal_status_t status;
  std::string sentence;
};

Outcome create(const RankContext& job, Identity identity, int64_t connect_timeout_ms) {
  gimbal_config_t config = rank_config(job);
  config.rank = identity.rank;
  config.size = identity.size;
  config.connect_timeout_ms = connect_timeout_ms;
  gimbal_comm_t comm = nullptr;
  const gimbal_status_t status = gimbal_comm_create(&config, &comm);
  EXPECT_EQ(comm, nullptr);
  return {status, gimbal_last_error()};
}

class WrongWorld : public RanksTest, public testing::WithParamInterface<RankKind> {
 protected:
  // One process or thread per identity; each outcome goes to `check`.
  static void run(const std::vector<Identity>& identities, int64_t connect_timeout_ms,
                  const std::function<void(Identity, const Outcome&)>& check) {
    run_ranks(GetParam(), static_cast<int32_t>(identities.size()), [&](const RankContext& context) {
      const Identity identity = identities[static_cast<size_t>(context.rank)];
      check(identity, create(context, identity, connect_timeout_ms));
    });
  }
};

TEST_P(WrongWorld, NamesBothProcessesThatJoinedAsOneRank) {
  run({{0, 4}, {1, 4}, {2, 4}, {1, 4}}, kTimeoutMs, [](Identity identity, const Outcome& outcome) {
    EXPECT_EQ(outcome.status, GIMBAL_MISMATCH) << "rank " << identity.rank;
    EXPECT_THAT(outcome.sentence, AllOf(HasSubstr("rank 1 joined twice (pid "), HasSubstr(" and pid ")));
  });
}

TEST_P(WrongWorld, FailsOnAllWhenEveryRankIsTwiceThere) {
  constexpr int64_t kConnectMs = 2'000;
  run({{0, 4}, {1, 4}, {0, 4}, {1, 4}}, kConnectMs, [](Identity identity, const Outcome& outcome) {
    EXPECT_NE(outcome.status, GIMBAL_OK) << "rank " << identity.rank;
    // A rank that comes when the others have failed already finds nobody, or the store as rank 0 leaves it.
    EXPECT_THAT(outcome.sentence, AnyOf(HasSubstr("rank 0 joined twice"), HasSubstr("rank 1 joined twice"),
                                        HasSubstr("missing ranks: "), HasSubstr("is gone: rank 0 closed it")));
  });
}

TEST_P(WrongWorld, NamesTheMissingRankAtTheDeadline) {
  constexpr int64_t kConnectMs = 1'000;
  run({{0, 3}, {1, 3}}, kConnectMs, [](Identity identity, const Outcome& outcome) {
    EXPECT_EQ(outcome.status, GIMBAL_TIMEOUT) << "rank " << identity.rank;
    EXPECT_THAT(outcome.sentence, HasSubstr("missing ranks: 2 (2 of 3 joined within "));
  });
}

TEST_P(WrongWorld, NamesBothSizes) {
  run({{0, 2}, {1, 3}}, kTimeoutMs, [](Identity identity, const Outcome& outcome) {
    EXPECT_EQ(outcome.status, GIMBAL_MISMATCH) << "rank " << identity.rank;
    EXPECT_THAT(outcome.sentence, HasSubstr("world size 2 on rank 0, 3 on rank 1"));
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, WrongWorld, testing::ValuesIn(rank_kinds()), kind_test_name);

// ---- Nonsense that one rank sees by itself ----

class WrongIdentity : public RanksTest {
 protected:
  // Nobody to wait for: a rank that waited would still be there at the deadline.
  static Outcome create_alone(Identity identity) { return create({0, 1, "unix://nobody-comes"}, identity, kTimeoutMs); }
  static Outcome create_from_environment() {
    gimbal_comm_t comm = nullptr;
    const gimbal_status_t status = gimbal_comm_create(nullptr, &comm);
    EXPECT_EQ(comm, nullptr);
    return {status, gimbal_last_error()};
  }

 private:
  ScopedEnvironment no_rank_{"GIMBAL_RANK", std::nullopt};
  ScopedEnvironment no_size_{"GIMBAL_SIZE", std::nullopt};
};

TEST_F(WrongIdentity, RankOutsideItsWorldIsRefusedAtOnce) {
  const Outcome outcome = create_alone({5, 4});
  EXPECT_EQ(outcome.status, GIMBAL_INVALID_ARGUMENT);
  EXPECT_THAT(outcome.sentence, HasSubstr("rank 5 of 4"));
}

TEST_F(WrongIdentity, NegativeRankIsRefusedAtOnce) {
  for (const int32_t rank : {-1, -2}) {
    const Outcome outcome = create_alone({rank, 4});
    EXPECT_EQ(outcome.status, GIMBAL_INVALID_ARGUMENT);
    EXPECT_THAT(outcome.sentence, HasSubstr("config.rank is " + std::to_string(rank)));
  }
}

TEST_F(WrongIdentity, SizeOfNoRanksIsRefusedAtOnce) {
  const Outcome outcome = create_alone({0, 0});
  EXPECT_EQ(outcome.status, GIMBAL_INVALID_ARGUMENT);
  EXPECT_THAT(outcome.sentence, HasSubstr("config.size 0"));
}

struct Variables {
  const char* name;
  const char* rank;
  const char* size;
  const char* named;  // variable
  const char* value;
};

class WrongVariable : public WrongIdentity, public testing::WithParamInterface<Variables> {};

TEST_P(WrongVariable, IsRefusedAtOnceByNameAndValue) {
  const Variables& variables = GetParam();
  const ScopedEnvironment rank("RANK", variables.rank);
  const ScopedEnvironment size("WORLD_SIZE", variables.size);
  const Outcome outcome = create_from_environment();
  EXPECT_EQ(outcome.status, GIMBAL_INVALID_ARGUMENT);
  EXPECT_THAT(outcome.sentence, AllOf(HasSubstr(variables.named), HasSubstr(variables.value)));
}

INSTANTIATE_TEST_SUITE_P(Values, WrongVariable,
                         testing::Values(Variables{"rank_of_letters", "abc", "4", "RANK", "abc"},
                                         Variables{"negative_rank", "-1", "4", "RANK", "-1"},
                                         Variables{"rank_outside", "5", "4", "RANK", "5"},
                                         Variables{"rank_with_tail", "1x", "4", "RANK", "1x"},
                                         Variables{"size_zero", "0", "0", "WORLD_SIZE", "0"},
                                         Variables{"size_of_letters", "0", "many", "WORLD_SIZE", "many"}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace gimbal::test
