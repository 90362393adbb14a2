#include "topology/isolated.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace gimbal {
namespace {

constexpr char kDone = 'd';
constexpr char kFailed = 'f';
constexpr size_t kMostResult = size_t{64} << 20;

size_t mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void limit(int resource, rlim_t value) {
  rlimit now{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &now) != 0) return;
  now.rlim_cur = std::min(value, now.rlim_max);
  setrlimit(static_cast<__rlimit_resource_t>(resource), &now);
}

void write_all(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t bytes = write(fd, text.data() + done, text.size() - done);
    if (bytes < 0 && errno != EINTR) return;
    if (bytes > 0) done += static_cast<size_t>(bytes);
  }
}

[[noreturn]] void be_child(const std::function<Result<std::string>()>& work, const IsolationLimits& limits, int out) {
  // The caller's handlers (a flight recorder, a fuzzer) are not for what happens here.
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT}) signal(number, SIG_DFL);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, static_cast<rlim_t>(limits.time_ms / 1000 + 1));
  limit(RLIMIT_AS, mapped_bytes() + limits.memory_bytes);
  std::string message;
  try {
    const Result<std::string> result = work();
    message = result.ok() ? kDone + *result : kFailed + result.status().message();
  } catch (const std::bad_alloc&) {
    message = kFailed + std::string("reading it takes too much memory");
  }
  write_all(out, message);
  _exit(0);
}

// Until the child closes its end. False when the time is up.
bool read_all(int fd, const Deadline& deadline, std::string& text) {
  char buffer[65536];
  while (text.size() < kMostResult) {
    pollfd stream = {fd, POLLIN, 0};
    if (deadline.passed()) return false;
    if (poll(&stream, 1, deadline.remaining_ms()) <= 0) continue;
    const ssize_t bytes = read(fd, buffer, sizeof(buffer));
    if (bytes == 0) return true;
    if (bytes > 0) text.append(buffer, static_cast<size_t>(bytes));
  }
  return false;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return std::string("the reader died of it: ") + strsignal(WTERMSIG(status));
  return "the reader died of it: status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Result<std::string> run_isolated(const std::function<Result<std::string>()>& work, const IsolationLimits& limits) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe to a child", errno);
  const FileDescriptor in(ends[0]);
  FileDescriptor out(ends[1]);
  const pid_t child = fork();
  if (child < 0) return system_error("fork", errno);
  if (child == 0) be_child(work, limits, out.get());
  out.reset();
  std::string text;
  const bool ended = read_all(in.get(), Deadline::after_ms(limits.time_ms), text);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) return Status(Code::kInvalidArgument, "reading it takes longer than " + std::to_string(limits.time_ms) + " ms");
  if (text.empty()) return Status(Code::kInvalidArgument, how_it_ended(status));
  if (text[0] != kDone) return Status(Code::kInvalidArgument, text.substr(1));
  return text.substr(1);
}

}  // namespace gimbal
