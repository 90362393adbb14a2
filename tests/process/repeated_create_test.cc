// Case C26: a communicator that is made, used and destroyed many times at one address leaves no descriptor, thread or memory.
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/deadline.h"
#include "tests/support/known_sum.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"
#include "tests/unit/transport/free_port.h"

namespace gimbal::test {
namespace {

constexpr int kSettledAfter = 10;  // rounds: what is made once per process has been made
constexpr size_t kMostGrowthBytes = size_t{2} << 20;

size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total_pages = 0;
  size_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void make_use_and_destroy(const RankContext& context) {
  Communicator communicator(context);
  KnownSum sum(communicator, 1000);
  expect_exact_sum(sum);
  gimbal_request_t request = nullptr;  // makes the progress thread
  EXPECT_EQ(gimbal_barrier_start(communicator.get(), nullptr, &request), GIMBAL_OK);
  EXPECT_EQ(gimbal_wait(&request), GIMBAL_OK);
}

// A thread that has been joined leaves /proc a moment later.
Resources settled_resources(size_t threads) {
  const Deadline deadline = Deadline::after_ms(kTimeoutMs);
  Resources now = current_resources();
  while (now.thread_count > threads && !deadline.passed()) {
    std::this_thread::yield();
    now = current_resources();
  }
  return now;
}

void repeat(int rounds, const std::string& rendezvous) {
  run_ranks(RankKind::kProcesses, 2, [&](const RankContext& context) {
    const RankContext fixed = {context.rank, context.size, rendezvous};
    Resources before;
    size_t resident_before = 0;
    for (int round = 1; round <= rounds; ++round) {
      make_use_and_destroy(fixed);
      if (round != kSettledAfter) continue;
      before = settled_resources(1);
      resident_before = resident_bytes();
    }
    const Resources after = settled_resources(1);
    EXPECT_EQ(leftovers(before, after), "");
    EXPECT_EQ(after.descriptors.size(), before.descriptors.size());
    EXPECT_LT(resident_bytes(), resident_before + kMostGrowthBytes);
  });
}

std::string fixed_port() { return "tcp://127.0.0.1:" + std::to_string(gimbal::testing::free_port()); }
std::string fixed_name() { return "unix://repeated-create-" + std::to_string(getpid()); }

class RepeatedCreate : public ProcessRanksTest {};
TEST_F(RepeatedCreate, AtOnePortLeavesNothing) { repeat(200, fixed_port()); }
TEST_F(RepeatedCreate, AtOneNameLeavesNothing) { repeat(200, fixed_name()); }

class LongRepeatedCreate : public ProcessRanksTest {};
TEST_F(LongRepeatedCreate, AtOnePortLeavesNothing) { repeat(1000, fixed_port()); }
TEST_F(LongRepeatedCreate, AtOneNameLeavesNothing) { repeat(1000, fixed_name()); }

}  // namespace
}  // namespace gimbal::test
