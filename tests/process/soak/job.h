// One job of the soak: ranks are started, and killed one after the other at random moments until one is left.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/process/soak/rank.h"
#include "tests/support/hosts.h"
#include "tests/support/shared_page.h"

namespace gimbal::test {

class SoakJob {
 public:
  static constexpr int32_t kMaxRanks = 8;

  // hosts may be null: all ranks are then on this one. The plan's rendezvous is for this job alone.
  SoakJob(const SoakPlan& plan, int32_t ranks, const Hosts* hosts, std::mt19937_64& random);
  // Kills what still lives.
  ~SoakJob();
  SoakJob(const SoakJob&) = delete;
  SoakJob& operator=(const SoakJob&) = delete;

  // Returns how many ranks it killed; throws std::runtime_error with what went wrong.
  int run();

 private:
  struct Page {
    RankBoard boards[kMaxRanks];
  };
  void start(int32_t rank);
  void kill_one();
  // Until every living rank has right sums in a communicator of just those.
  void wait_until_ready();
  void reap();
  void pause_up_to(int64_t most_us);
  [[nodiscard]] bool lives(int32_t rank) const { return processes_[static_cast<size_t>(rank)] > 0; }
  [[nodiscard]] std::vector<int32_t> living() const;
  [[nodiscard]] std::string describe() const;

  const SoakPlan plan_;
  const Hosts* hosts_;
  std::mt19937_64& random_;
  std::vector<pid_t> processes_;  // by rank; 0: ended
  const Shared<Page> page_;
  int kills_ = 0;
};

}  // namespace gimbal::test
