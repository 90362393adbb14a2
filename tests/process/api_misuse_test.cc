// Case C27: wrong handles, pointers and values are error codes with a sentence, never a crash or a wait, and harm nobody.
#include <gmock/gmock.h>

#include <array>

#include "tests/support/known_sum.h"
#include "tests/support/scenario.h"

namespace gimbal::test {
namespace {

// Every call that takes a communicator, by name; each would succeed on a communicator of one rank.
struct CallOnHandle {
  const char* name;
  gimbal_status_t (*call)(gimbal_comm_t);
};

float values[4] = {1, 2, 3, 4};
const size_t kCounts[1] = {1};

const CallOnHandle kCalls[] = {
    {"rank",
     [](gimbal_comm_t comm) {
       int32_t rank;
       return gimbal_comm_rank(comm, &rank);
     }},
    {"size",
     [](gimbal_comm_t comm) {
       int32_t size;
       return gimbal_comm_size(comm, &size);
     }},
    {"status", [](gimbal_comm_t comm) { return gimbal_comm_status(comm); }},
    {"split",
     [](gimbal_comm_t comm) {
       gimbal_comm_t out;
       return gimbal_comm_split(comm, 0, 0, &out);
     }},
    {"shrink",
     [](gimbal_comm_t comm) {
       gimbal_comm_t out;
       return gimbal_comm_shrink(comm, &out);
     }},
    {"stats",
     [](gimbal_comm_t comm) {
       gimbal_stats_t stats = GIMBAL_STATS_INIT;
       return gimbal_comm_stats(comm, &stats);
     }},
    {"dump", [](gimbal_comm_t comm) { return gimbal_comm_dump(comm, "/dev/null"); }},
    {"mem_alloc",
     [](gimbal_comm_t comm) {
       void* memory;
       return gimbal_mem_alloc(comm, GIMBAL_MEMORY_HOST, 64, &memory);
     }},
    {"mem_free", [](gimbal_comm_t comm) { return gimbal_mem_free(comm, values); }},
    {"register", [](gimbal_comm_t comm) { return gimbal_register(comm, values, sizeof(values)); }},
    {"deregister", [](gimbal_comm_t comm) { return gimbal_deregister(comm, values); }},
    {"all_reduce",
     [](gimbal_comm_t comm) { return gimbal_all_reduce(values, values, 1, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr); }},
    {"reduce_scatter",
     [](gimbal_comm_t comm) { return gimbal_reduce_scatter(values, values, 1, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr); }},
    {"all_gather", [](gimbal_comm_t comm) { return gimbal_all_gather(values, values, 1, GIMBAL_FLOAT32, comm, nullptr); }},
    {"broadcast", [](gimbal_comm_t comm) { return gimbal_broadcast(values, 1, GIMBAL_FLOAT32, 0, comm, nullptr); }},
    {"reduce",
     [](gimbal_comm_t comm) { return gimbal_reduce(values, values, 1, GIMBAL_FLOAT32, GIMBAL_SUM, 0, comm, nullptr); }},
    {"all_to_all", [](gimbal_comm_t comm) { return gimbal_all_to_all(values, values + 2, 1, GIMBAL_FLOAT32, comm, nullptr); }},
    {"gather", [](gimbal_comm_t comm) { return gimbal_gather(values, values + 2, 1, GIMBAL_FLOAT32, 0, comm, nullptr); }},
    {"scatter", [](gimbal_comm_t comm) { return gimbal_scatter(values, values + 2, 1, GIMBAL_FLOAT32, 0, comm, nullptr); }},
    {"all_gather_v",
     [](gimbal_comm_t comm) {
       return gimbal_all_gather_v(values, 1, values + 2, kCounts, nullptr, GIMBAL_FLOAT32, comm, nullptr);
     }},
    {"all_to_all_v",
     [](gimbal_comm_t comm) {
       return gimbal_all_to_all_v(values, kCounts, nullptr, values + 2, kCounts, nullptr, GIMBAL_FLOAT32, comm, nullptr);
     }},
    {"send", [](gimbal_comm_t comm) { return gimbal_send(values, 1, GIMBAL_FLOAT32, 1, comm, nullptr); }},
    {"recv", [](gimbal_comm_t comm) { return gimbal_recv(values, 1, GIMBAL_FLOAT32, 1, comm, nullptr); }},
    {"barrier", [](gimbal_comm_t comm) { return gimbal_barrier(comm, nullptr); }},
    {"all_reduce_start",
     [](gimbal_comm_t comm) {
       gimbal_request_t request;
       return gimbal_all_reduce_start(values, values, 1, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr, &request);
     }},
    {"barrier_start",
     [](gimbal_comm_t comm) {
       gimbal_request_t request;
       return gimbal_barrier_start(comm, nullptr, &request);
     }},
    {"explain",
     [](gimbal_comm_t comm) {
       char text[256];
       return gimbal_explain(comm, GIMBAL_ALL_REDUCE, 8, GIMBAL_FLOAT32, text, sizeof(text));
     }},
    {"abort", [](gimbal_comm_t comm) { return gimbal_comm_abort(comm); }},
    {"destroy", [](gimbal_comm_t comm) { return gimbal_comm_destroy(comm); }},
};

void expect_every_call_refuses(gimbal_comm_t comm, const std::string& handle) {
  for (const CallOnHandle& call : kCalls) {
    EXPECT_EQ(call.call(comm), GIMBAL_INVALID_ARGUMENT) << call.name << " on " << handle;
    EXPECT_THAT(gimbal_last_error(), testing::HasSubstr("communicator")) << call.name << " on " << handle;
  }
}

gimbal_comm_t create_alone() {
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  config.rank = 0;
  config.size = 1;
  gimbal_comm_t comm = nullptr;
  EXPECT_EQ(gimbal_comm_create(&config, &comm), GIMBAL_OK) << gimbal_last_error();
  return comm;
}

class WrongHandle : public RanksTest {};

TEST_F(WrongHandle, NullIsRefusedByEveryCall) { expect_every_call_refuses(nullptr, "NULL"); }

TEST_F(WrongHandle, DestroyedIsRefusedByEveryCallAndByASecondDestroy) {
  gimbal_comm_t comm = create_alone();
  ASSERT_EQ(gimbal_comm_destroy(comm), GIMBAL_OK);
  expect_every_call_refuses(comm, "a destroyed handle");
}

TEST_F(WrongHandle, InventedIsRefusedByEveryCall) {
  gimbal_comm_t comm = create_alone();
  const auto real = reinterpret_cast<uintptr_t>(comm);
  for (const uintptr_t number : {uintptr_t{1}, uintptr_t{5}, real + 16, real ^ (uintptr_t{1} << 32), ~uintptr_t{0},
                                 reinterpret_cast<uintptr_t>(&comm), real + 1}) {
    expect_every_call_refuses(reinterpret_cast<gimbal_comm_t>(number), std::to_string(number));
  }
  EXPECT_EQ(gimbal_comm_destroy(comm), GIMBAL_OK);
}

TEST_F(WrongHandle, OfADestroyedCommunicatorDoesNotNameTheNextOne) {
  gimbal_comm_t first = create_alone();
  ASSERT_EQ(gimbal_comm_destroy(first), GIMBAL_OK);
  gimbal_comm_t second = create_alone();
  EXPECT_EQ(gimbal_comm_destroy(first), GIMBAL_INVALID_ARGUMENT);
  EXPECT_EQ(gimbal_comm_status(second), GIMBAL_OK);
  EXPECT_EQ(gimbal_comm_destroy(second), GIMBAL_OK);
}

TEST_F(WrongHandle, OfARequestIsRefused) {
  gimbal_comm_t comm = create_alone();
  gimbal_request_t request = nullptr;
  ASSERT_EQ(gimbal_barrier_start(comm, nullptr, &request), GIMBAL_OK);
  gimbal_request_t copy = request;
  ASSERT_EQ(gimbal_wait(&request), GIMBAL_OK);
  EXPECT_EQ(request, nullptr);
  int done = 0;
  EXPECT_EQ(gimbal_wait(&copy), GIMBAL_INVALID_ARGUMENT);
  EXPECT_EQ(gimbal_test(&copy, &done), GIMBAL_INVALID_ARGUMENT);
  EXPECT_EQ(gimbal_wait(nullptr), GIMBAL_INVALID_ARGUMENT);
  EXPECT_EQ(gimbal_test(&request, nullptr), GIMBAL_INVALID_ARGUMENT);
  EXPECT_EQ(gimbal_wait(&request), GIMBAL_OK) << "a NULL request is complete";
  EXPECT_EQ(gimbal_comm_destroy(comm), GIMBAL_OK);
}

TEST_F(WrongHandle, CreateWithoutAPlaceForTheHandleIsRefused) {
  EXPECT_EQ(gimbal_comm_create(nullptr, nullptr), GIMBAL_INVALID_ARGUMENT);
}

class WrongArgument : public RanksTest, public testing::WithParamInterface<RankKind> {};

// Each wrong call is made by all ranks; the sum after it shows that nothing was started and nobody is out of step.
TEST_P(WrongArgument, IsRefusedAndLeavesTheCommunicatorAsItWas) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Communicator communicator(context);
    KnownSum sum(communicator, 1000);
    const auto refused = [&](const char* name, gimbal_status_t status) {
      EXPECT_EQ(status, GIMBAL_INVALID_ARGUMENT) << name;
      EXPECT_STRNE(gimbal_last_error(), "") << name;
      expect_exact_sum(sum);
    };
    std::array<float, 8> data = {};
    float* const p = data.data();
    gimbal_comm_t comm = communicator.get();
    const auto dtype99 = static_cast<gimbal_dtype_t>(99);
    const auto op99 = static_cast<gimbal_op_t>(99);
    refused("NULL send", gimbal_all_reduce(nullptr, p, 4, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr));
    refused("NULL recv", gimbal_all_reduce(p, nullptr, 4, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr));
    refused("dtype 99", gimbal_all_reduce(p, p, 4, dtype99, GIMBAL_SUM, comm, nullptr));
    refused("dtype -1", gimbal_all_reduce(p, p, 4, static_cast<gimbal_dtype_t>(-1), GIMBAL_SUM, comm, nullptr));
    refused("op 99", gimbal_all_reduce(p, p, 4, GIMBAL_FLOAT32, op99, comm, nullptr));
    refused("op -1", gimbal_all_reduce(p, p, 4, GIMBAL_FLOAT32, static_cast<gimbal_op_t>(-1), comm, nullptr));
    refused("a count of more bytes than there are",
            gimbal_all_reduce(p, p, SIZE_MAX / 2, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr));
    refused("root -1", gimbal_broadcast(p, 4, GIMBAL_FLOAT32, -1, comm, nullptr));
    refused("root 2 of 2", gimbal_broadcast(p, 4, GIMBAL_FLOAT32, 2, comm, nullptr));
    refused("peer -1", gimbal_send(p, 4, GIMBAL_FLOAT32, -1, comm, nullptr));
    refused("peer 2 of 2", gimbal_recv(p, 4, GIMBAL_FLOAT32, 2, comm, nullptr));
    refused("peer is itself", gimbal_send(p, 4, GIMBAL_FLOAT32, context.rank, comm, nullptr));
    refused("a request without a place", gimbal_all_reduce_start(p, p, 4, GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr, nullptr));
    refused("color -2", gimbal_comm_split(comm, -2, 0, &comm));
    comm = communicator.get();
    refused("split without a place", gimbal_comm_split(comm, 0, 0, nullptr));
    refused("free of what was not allocated", gimbal_mem_free(comm, p));
    refused("NULL counts", gimbal_all_gather_v(p, 1, p + 2, nullptr, nullptr, GIMBAL_FLOAT32, comm, nullptr));
  });
}

TEST_P(WrongArgument, CommunicatorsAfterADestroyedOneWork) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    for (int i = 0; i < 3; ++i) {
      Communicator communicator(context);
      KnownSum sum(communicator, 1000);
      expect_exact_sum(sum);
    }
  });
}

TEST_P(WrongArgument, UseAfterDestroyIsRefusedWhileThePeerGoesOn) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    Communicator world(context);
    gimbal_comm_t pair = nullptr;
    ASSERT_EQ(gimbal_comm_split(world.get(), 0, context.rank, &pair), GIMBAL_OK) << gimbal_last_error();
    ASSERT_EQ(gimbal_comm_destroy(pair), GIMBAL_OK);
    float value = 1;
    EXPECT_EQ(gimbal_all_reduce(&value, &value, 1, GIMBAL_FLOAT32, GIMBAL_SUM, pair, nullptr), GIMBAL_INVALID_ARGUMENT);
    EXPECT_EQ(gimbal_comm_destroy(pair), GIMBAL_INVALID_ARGUMENT);
    KnownSum sum(world, 1000);
    expect_exact_sum(sum);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, WrongArgument, testing::ValuesIn(rank_kinds()), kind_test_name);

TEST(GroupEnd, WithoutAStartIsInvalidUsage) {
  EXPECT_EQ(gimbal_group_end(), GIMBAL_INVALID_USAGE);
  EXPECT_THAT(gimbal_last_error(), testing::HasSubstr("gimbal_group_start"));
}

TEST(StatusName, OfANumberThatIsNoStatusIsUnknown) {
  EXPECT_STREQ(gimbal_status_name(static_cast<gimbal_status_t>(99)), "GIMBAL_UNKNOWN");
}

}  // namespace
}  // namespace gimbal::test
