// Case C31: jobs that are killed whole, at any moment, leave nothing, and neither stand in the next one's way nor harm another.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <random>

#include "base/deadline.h"
#include "tests/support/known_sum.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"
#include "tests/support/sudden_end.h"
#include "tests/unit/transport/free_port.h"

namespace gimbal::test {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kLongestLifeMs = 60;  // about twice what create takes: half the jobs die in it, half in an all-reduce

void all_reduce_for_ever(const RankContext& context) {
  while (true) {
    Communicator communicator(context);
    KnownSum sum(communicator, 50'000);
    for (int i = 0; i < 20; ++i) expect_exact_sum(sum);
  }
}

size_t entries_of(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

class KilledJob : public ProcessRanksTest {
 protected:
  // Ten jobs that are killed at a seeded random moment, then one that must work, all at one rendezvous.
  static void kill_jobs_at(const std::string& rendezvous) {
    std::mt19937 random(31);
    std::uniform_int_distribution<int64_t> life_ms(0, kLongestLifeMs);
    for (int job = 0; job < 10; ++job) {
      const int64_t end_ns = monotonic_ns() + life_ms(random) * kMs;
      const auto results = run_processes(
          2,
          [&](const RankContext& context) {
            end_suddenly_at(end_ns);
            all_reduce_for_ever({context.rank, context.size, rendezvous});
          },
          kTimeoutMs);
      for (const ProcessResult& result : results) EXPECT_EQ(result.signal, SIGKILL) << result.output;
    }
    run_ranks(RankKind::kProcesses, 2, [&](const RankContext& context) {
      Communicator communicator(RankContext{context.rank, context.size, rendezvous});
      KnownSum sum(communicator, 50'000);
      expect_exact_sum(sum);
    });
  }
};

TEST_F(KilledJob, LeavesItsNameToTheNext) { kill_jobs_at("unix://killed-job-" + std::to_string(getpid())); }

TEST_F(KilledJob, LeavesItsPortToTheNext) { kill_jobs_at("tcp://127.0.0.1:" + std::to_string(gimbal::testing::free_port())); }

TEST_F(KilledJob, LeavesItsFolderToTheNextWhichClearsIt) {
  std::string folder = std::filesystem::temp_directory_path() / "gimbal-killed-job-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  kill_jobs_at("file://" + folder + "/rendezvous");
  EXPECT_EQ(entries_of(folder), 0U);
  std::filesystem::remove_all(folder);
}

TEST_F(KilledJob, DoesNotTouchTheJobsBesideIt) {
  constexpr int32_t kJobs = 3;  // the last one is killed
  const int64_t end_ns = monotonic_ns() + kLongestLifeMs * kMs;
  const auto results = run_processes(
      2 * kJobs,
      [&](const RankContext& context) {
        const int32_t job = context.rank / 2;
        const RankContext mine = {context.rank % 2, 2, context.rendezvous + "-" + std::to_string(job)};
        if (job == kJobs - 1) {
          end_suddenly_at(end_ns);
          all_reduce_for_ever(mine);
        }
        Communicator communicator(mine);
        KnownSum sum(communicator, 50'000);
        // Until well after the death of the third job, by the agreement of both ranks.
        int32_t over = 0;
        while (over < 2) {
          expect_exact_sum(sum);
          const int32_t mine_is_over = monotonic_ns() > end_ns + 2 * kLongestLifeMs * kMs ? 1 : 0;
          communicator.all_reduce(&mine_is_over, &over, 1, GIMBAL_INT32, GIMBAL_SUM);
        }
      },
      kTimeoutMs);
  for (size_t i = 0; i < results.size(); ++i) {
    if (i / 2 == kJobs - 1) {
      EXPECT_EQ(results[i].signal, SIGKILL);
    } else {
      EXPECT_EQ(results[i].exit_code, 0) << results[i].output;
    }
  }
}

}  // namespace
}  // namespace gimbal::test
