// Runs one function as every rank of a job: ranks as threads of this process, or as processes made by fork().
//
// The function makes its communicator from the context. Expectations of GoogleTest that fail inside it, and exceptions that
// leave it, fail the calling test, whichever kind the ranks are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gimbal::test {

enum class RankKind : uint8_t { kThreads, kProcesses };

// ThreadSanitizer sees races between threads of one process only, so that build runs no forked ranks.
inline std::vector<RankKind> rank_kinds() {
#ifdef __SANITIZE_THREAD__
  return {RankKind::kThreads};
#else
  return {RankKind::kThreads, RankKind::kProcesses};
#endif
}

// Loops over megabytes of a test's own take a sanitizer minutes: such a test takes fewer of them there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline std::string rank_kind_name(RankKind kind) { return kind == RankKind::kThreads ? "threads" : "processes"; }

struct RankContext {
  int32_t rank;
  int32_t size;
  std::string rendezvous;  // of this job alone
};

using RankFunction = std::function<void(const RankContext&)>;

struct ProcessResult {
  int exit_code = -1;  // 0: no expectation failed; -1: it ended by a signal
  int signal = 0;
  bool timed_out = false;  // killed at the deadline
  std::string output;      // standard output and error
};

// Must be called while this process has one thread. Returns when all have ended or been killed at the deadline; results are by
// rank.
std::vector<ProcessResult> run_processes(int32_t size, const RankFunction& function, int64_t timeout_ms);

// Runs the ranks and fails the calling test unless every rank succeeds.
void run_ranks(RankKind kind, int32_t size, const RankFunction& function);

}  // namespace gimbal::test
