#include "tests/process/soak/job.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "base/deadline.h"

namespace gimbal::test {

// Time is the subject here: deaths fall anywhere between two moments.
void SoakJob::pause_up_to(int64_t most_us) {
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % static_cast<uint64_t>(most_us)));
}

SoakJob::SoakJob(const SoakPlan& plan, int32_t ranks, const Hosts* hosts, std::mt19937_64& random)
    : plan_(plan), hosts_(hosts), random_(random), processes_(static_cast<size_t>(ranks)) {}

SoakJob::~SoakJob() {
  for (const int32_t rank : living()) {
    kill(processes_[static_cast<size_t>(rank)], SIGKILL);
    waitpid(processes_[static_cast<size_t>(rank)], nullptr, 0);
  }
}

void SoakJob::start(int32_t rank) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    const auto size = static_cast<int32_t>(processes_.size());
    if (hosts_ != nullptr) hosts_->enter(static_cast<size_t>(rank) * hosts_->size() / processes_.size());
    _exit(live(plan_, rank, size, page_->boards[rank]));
  }
  processes_[static_cast<size_t>(rank)] = pid;
}

int SoakJob::run() {
  for (size_t rank = 0; rank < processes_.size(); ++rank) start(static_cast<int32_t>(rank));
  if (plan_.may_be_refused) {
    pause_up_to(15'000);
    kill_one();
  }
  while (true) {
    wait_until_ready();
    if (living().size() <= 1) break;
    pause_up_to(5'000);
    kill_one();
    // A shrink takes about 10 ms: this one may fall into it.
    if (living().size() > 1 && random_() % 3 == 0) {
      pause_up_to(12'000);
      kill_one();
    }
  }
  return kills_;
}

void SoakJob::kill_one() {
  reap();
  const std::vector<int32_t> candidates = living();
  if (candidates.empty()) return;
  const int32_t victim = candidates[random_() % candidates.size()];
  pid_t& pid = processes_[static_cast<size_t>(victim)];
  kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  pid = 0;
  if (page_->boards[victim].has_problem) throw std::runtime_error(describe());
  ++kills_;
}

void SoakJob::wait_until_ready() {
  constexpr int64_t kHangsAfterMs = 60'000;
  const Deadline deadline = Deadline::after_ms(kHangsAfterMs);
  while (true) {
    reap();
    const std::vector<int32_t> ranks = living();
    if (ranks.empty()) return;
    bool ready = ranks.size() > 1;  // the last one ends by itself
    for (const int32_t rank : ranks) ready = ready && page_->boards[rank].size == static_cast<int32_t>(ranks.size());
    if (ready) return;
    if (deadline.passed()) throw std::runtime_error("hangs: " + describe());
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void SoakJob::reap() {
  for (const int32_t rank : living()) {
    pid_t& pid = processes_[static_cast<size_t>(rank)];
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) != pid) continue;
    pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      throw std::runtime_error("rank " + std::to_string(rank) + " ended by " +
                               (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : "an error") + ": " +
                               describe());
    }
    if (!page_->boards[rank].refused && !living().empty()) {
      throw std::runtime_error("rank " + std::to_string(rank) + " went on alone: " + describe());
    }
  }
}

std::vector<int32_t> SoakJob::living() const {
  std::vector<int32_t> ranks;
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    if (lives(static_cast<int32_t>(rank))) ranks.push_back(static_cast<int32_t>(rank));
  }
  return ranks;
}

std::string SoakJob::describe() const {
  std::string text = std::to_string(kills_) + " killed of " + std::to_string(processes_.size());
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    const RankBoard& board = page_->boards[rank];
    text += "; rank " + std::to_string(rank) + (lives(static_cast<int32_t>(rank)) ? "" : " (ended)") + " size " +
            std::to_string(board.size);
    if (board.refused) text += " refused";
    if (board.has_problem) text += std::string(" ") + board.problem;
  }
  return text;
}

}  // namespace gimbal::test
