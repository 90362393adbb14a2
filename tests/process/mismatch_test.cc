// Case C15: ranks that call different things get GIMBAL_MISMATCH with both sides' values, all of them, and never a result.
#include <gmock/gmock.h>

#include "base/deadline.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Rank 0 calls the first, all others the second.
struct Call {
  size_t count;
  gimbal_dtype_t dtype = GIMBAL_FLOAT32;
  gimbal_op_t op = GIMBAL_SUM;
};

struct Difference {
  const char* name;
  Call first;
  Call others;
  std::string first_text;  // both must be in every rank's sentence
  std::string others_text;
};

std::vector<Difference> differences() {
  return {
      {"count 100 and 200", {100}, {200}, "100", "200"},
      {"count 1 and 2", {1}, {2}, "1", "2"},
      {"count 256000 and 512000", {256000}, {512000}, "256000", "512000"},
      {"count 0 and 5", {0}, {5}, "0", "5"},
      {"type", {64, GIMBAL_FLOAT32}, {64, GIMBAL_INT32}, "float", "int32"},
      {"operation", {64, GIMBAL_FLOAT32, GIMBAL_SUM}, {64, GIMBAL_FLOAT32, GIMBAL_MAX}, "sum", "max"},
  };
}

class Mismatch : public ScenarioTest {};

TEST_P(Mismatch, IsAnErrorOnAllRanksThatNamesBothSides) {
  constexpr size_t kMaximumBytes = 512000 * sizeof(float);
  constexpr int64_t kRuleZeroMs = kTimeoutMs + 5'000;
  for (const int32_t ranks : {2, 3}) {
    for (const Difference& difference : differences()) {
      run_ranks(GetParam().ranks, ranks, [&](const RankContext& context) {
        Communicator communicator(context, GetParam().algorithm);
        Buffer send(communicator, GetParam().memory, kMaximumBytes);
        Buffer recv(communicator, GetParam().memory, kMaximumBytes);
        // A peer that is still allocating would have the error there, and not in the operation.
        ASSERT_EQ(gimbal_barrier(communicator.get(), nullptr), GIMBAL_OK) << gimbal_last_error();
        const Call& call = context.rank == 0 ? difference.first : difference.others;
        const auto input = send.place<float>(call.count);
        const auto output = recv.place<float>(call.count);
        std::fill(input.begin(), input.end(), 1.0F);
        const int64_t begin_ns = monotonic_ns();
        const gimbal_status_t status =
            gimbal_all_reduce(input.data(), output.data(), call.count, call.dtype, call.op, communicator.get(), nullptr);
        EXPECT_EQ(status, GIMBAL_MISMATCH) << difference.name << ", rank " << context.rank << " of " << ranks << ": "
                                           << gimbal_last_error();
        EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr(difference.first_text), HasSubstr(difference.others_text)))
            << difference.name;
        EXPECT_LT(monotonic_ns() - begin_ns, kRuleZeroMs * 1'000'000) << difference.name;
        EXPECT_EQ(gimbal_comm_status(communicator.get()), GIMBAL_MISMATCH) << difference.name;
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Mismatch, testing::ValuesIn(all_scenarios()), scenario_test_name);

class MismatchedCollective : public RanksTest, public testing::WithParamInterface<RankKind> {};

TEST_P(MismatchedCollective, IsAnErrorOnAllRanks) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator communicator(context);
    float value = 1;
    const gimbal_status_t status =
        context.rank == 0 ? gimbal_all_reduce(&value, &value, 1, GIMBAL_FLOAT32, GIMBAL_SUM, communicator.get(), nullptr)
                          : gimbal_broadcast(&value, 1, GIMBAL_FLOAT32, 0, communicator.get(), nullptr);
    EXPECT_EQ(status, GIMBAL_MISMATCH) << gimbal_last_error();
    EXPECT_THAT(gimbal_last_error(), AllOf(HasSubstr("all_reduce"), HasSubstr("broadcast")));
  });
}

TEST_P(MismatchedCollective, RootIsAnErrorOnAllRanks) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator communicator(context);
    float value = 1;
    EXPECT_EQ(gimbal_broadcast(&value, 1, GIMBAL_FLOAT32, context.rank, communicator.get(), nullptr), GIMBAL_MISMATCH)
        << gimbal_last_error();
    EXPECT_THAT(gimbal_last_error(), HasSubstr("root"));
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, MismatchedCollective, testing::ValuesIn(rank_kinds()), kind_test_name);

}  // namespace
}  // namespace gimbal::test
