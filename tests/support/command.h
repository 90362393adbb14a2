// Runs a program as a test's subject: its output, its exit status, and a limit on its time.
//
//   const CommandResult result = run_command({binary("gimbal-run"), "-n", "2", "true"});
//   EXPECT_EQ(result.status, 0) << result.err;
//
// A Command that is still running can be waited for by what it prints and be sent signals. Whatever happens to the test, the
// program's whole process group is killed by the destructor.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "tests/support/folders.h"

namespace gimbal::test {

struct CommandOptions {
  std::vector<std::pair<std::string, std::string>> environment;  // added to the test's own; an empty value unsets
  std::string input;                                             // standard input, at most a pipe's buffer (64 KiB)
  int64_t timeout_ms = 60'000;
};

struct CommandResult {
  int status = -1;  // the exit status; 128 + signal; -1 when it ran into its timeout and was killed
  std::string out;
  std::string err;
};

class Command {
 public:
  explicit Command(const std::vector<std::string>& arguments, const CommandOptions& options = {})
      : deadline_(Deadline::after_ms(options.timeout_ms)) {
    FileDescriptor child_in, child_out, child_err, in;
    open_pipe(child_in, in);
    open_pipe(out_, child_out);
    open_pipe(err_, child_err);
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      dup2(child_in.get(), STDIN_FILENO);
      dup2(child_out.get(), STDOUT_FILENO);
      dup2(child_err.get(), STDERR_FILENO);
      become(arguments, options);
    }
    setpgid(pid_, pid_);
    // A program that has already gone reads nothing; that is for the test to notice by its status.
    void (*const handler)(int) = signal(SIGPIPE, SIG_IGN);
    if (write(in.get(), options.input.data(), options.input.size()) < 0 && errno != EPIPE) std::abort();
    signal(SIGPIPE, handler);
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command() { kill_group(); }

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::string& out() const { return result_.out; }
  [[nodiscard]] const std::string& err() const { return result_.err; }

  void send_signal(int number) const { kill(pid_, number); }

  // Until the text has appeared in its output; false when it ended, or its time was up, without.
  bool wait_for(const std::string& text) {
    const auto seen = [&] { return (result_.out + result_.err).find(text) != std::string::npos; };
    while (!seen()) {
      if (!read_some()) return seen();
    }
    return true;
  }

  // Until it has ended and closed its output.
  CommandResult finish() {
    while (read_some()) {
    }
    const bool timed_out = out_.valid() || err_.valid();
    if (timed_out) kill(-pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    kill(-pid_, SIGKILL);
    pid_ = -1;
    if (!timed_out) result_.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return result_;
  }

 private:
  static void open_pipe(FileDescriptor& read_end, FileDescriptor& write_end) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    read_end = FileDescriptor(ends[0]);
    write_end = FileDescriptor(ends[1]);
  }

  [[noreturn]] static void become(const std::vector<std::string>& arguments, const CommandOptions& options) {
    for (const auto& [name, value] : options.environment) {
      if (value.empty()) {
        unsetenv(name.c_str());
      } else {
        setenv(name.c_str(), value.c_str(), 1);
      }
    }
    std::vector<char*> pointers;
    for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    execvp(pointers[0], pointers.data());
    dprintf(STDERR_FILENO, "test: cannot run %s: %s\n", pointers[0], strerror(errno));
    _exit(127);
  }

  // False when both streams have ended or the time is up.
  bool read_some() {
    pollfd streams[2] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
    if ((!out_.valid() && !err_.valid()) || deadline_.passed()) return false;
    if (poll(streams, 2, deadline_.remaining_ms()) <= 0) return errno == EINTR && !deadline_.passed();
    if (streams[0].revents != 0) append(out_, result_.out);
    if (streams[1].revents != 0) append(err_, result_.err);
    return true;
  }

  static void append(FileDescriptor& from, std::string& to) {
    char buffer[65536];
    const ssize_t bytes = read(from.get(), buffer, sizeof(buffer));
    if (bytes > 0) {
      to.append(buffer, static_cast<size_t>(bytes));
    } else {
      from.reset();
    }
  }

  void kill_group() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid_ = -1;
  Deadline deadline_;
  FileDescriptor out_;
  FileDescriptor err_;
  CommandResult result_;
};

inline CommandResult run_command(const std::vector<std::string>& arguments, const CommandOptions& options = {}) {
  return Command(arguments, options).finish();
}

}  // namespace gimbal::test
