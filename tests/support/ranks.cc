#include "tests/support/ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <system_error>
#include <thread>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace gimbal::test {
namespace {

// Longer than the operation deadline of the communicators (support/communicator.h): a rank that waits for ever is killed only
// after the library had its chance to say why.
constexpr int64_t kProcessTimeoutMs = 120'000;

std::string unique_rendezvous(RankKind kind) {
  static std::atomic<uint32_t> jobs{0};
  const std::string name = "gimbal-test-" + std::to_string(getpid()) + "-" + std::to_string(jobs.fetch_add(1));
  return (kind == RankKind::kThreads ? "memory://" : "unix://") + name;
}

void run_rank(const RankFunction& function, const RankContext& context) {
  try {
    function(context);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << context.rank << " of " << context.size << ": " << error.what();
  }
}

// A child is a copy of the test: it has the failures that were there before it as well.
int failed_parts() {
  const testing::TestResult& result = *testing::UnitTest::GetInstance()->current_test_info()->result();
  int failed = 0;
  for (int i = 0; i < result.total_part_count(); ++i) failed += result.GetTestPartResult(i).failed() ? 1 : 0;
  return failed;
}

struct Child {
  pid_t pid = -1;
  FileDescriptor output;
};

Child start_child(const RankFunction& function, const RankContext& context) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  FileDescriptor reading(ends[0]);
  const FileDescriptor writing(ends[1]);
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    dup2(writing.get(), STDOUT_FILENO);
    dup2(writing.get(), STDERR_FILENO);
    const int failed_before = failed_parts();
    run_rank(function, context);
    std::fflush(nullptr);
    _exit(failed_parts() > failed_before ? 1 : 0);
  }
  return {pid, std::move(reading)};
}

// Appends what can be read; closes the descriptor at the end of the output.
void read_some(Child& child, std::string& output) {
  std::array<char, 4096> buffer;
  const ssize_t bytes = read(child.output.get(), buffer.data(), buffer.size());
  if (bytes > 0) {
    output.append(buffer.data(), static_cast<size_t>(bytes));
  } else if (bytes == 0 || errno != EINTR) {
    child.output.reset();
  }
}

// Until every child has closed its output, which its end does at the latest.
void collect_output(std::vector<Child>& children, std::vector<ProcessResult>& results, Deadline deadline) {
  while (true) {
    std::vector<pollfd> polled;
    polled.reserve(children.size());
    for (const Child& child : children) polled.push_back({child.output.get(), POLLIN, 0});  // poll ignores -1
    const bool all_closed = std::all_of(polled.begin(), polled.end(), [](const pollfd& one) { return one.fd < 0; });
    if (all_closed || deadline.passed()) return;
    if (poll(polled.data(), polled.size(), deadline.remaining_ms()) <= 0) continue;
    for (size_t i = 0; i < children.size(); ++i) {
      if (polled[i].fd >= 0 && polled[i].revents != 0) read_some(children[i], results[i].output);
    }
  }
}

void reap(const Child& child, ProcessResult& result) {
  if (child.output.valid()) {
    result.timed_out = true;
    kill(child.pid, SIGKILL);
  }
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
}

void run_threads(int32_t size, const RankFunction& function) {
  const std::string rendezvous = unique_rendezvous(RankKind::kThreads);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(size));
  for (int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { run_rank(function, {rank, size, rendezvous}); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

std::vector<ProcessResult> run_processes(int32_t size, const RankFunction& function, int64_t timeout_ms) {
  const std::string rendezvous = unique_rendezvous(RankKind::kProcesses);
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  std::vector<Child> children;
  children.reserve(static_cast<size_t>(size));
  for (int32_t rank = 0; rank < size; ++rank) children.push_back(start_child(function, {rank, size, rendezvous}));
  std::vector<ProcessResult> results(children.size());
  collect_output(children, results, deadline);
  for (size_t i = 0; i < children.size(); ++i) reap(children[i], results[i]);
  return results;
}

void run_ranks(RankKind kind, int32_t size, const RankFunction& function) {
  if (kind == RankKind::kThreads) {
    run_threads(size, function);
    return;
  }
  const std::vector<ProcessResult> results = run_processes(size, function, kProcessTimeoutMs);
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const ProcessResult& result = results[rank];
    EXPECT_EQ(result.exit_code, 0) << "rank " << rank << " of " << size << ", signal " << result.signal
                                   << (result.timed_out ? ", killed at the deadline" : "") << ":\n"
                                   << result.output;
  }
}

}  // namespace gimbal::test
