#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/file_descriptor.h"
#include "tools/gimbal_topo/drawing.h"

extern char** environ;

namespace gimbal {
namespace {

// rsvg-convert reading its standard input from the descriptor; the child's id.
Result<pid_t> start_converter(int input, const std::string& path) {
  // Twice the size in points: readable on any screen.
  const std::string arguments[] = {"rsvg-convert", "--zoom", "2", "--format", "png", "--output", path};
  char* pointers[std::size(arguments) + 1] = {};
  for (size_t i = 0; i < std::size(arguments); ++i) pointers[i] = const_cast<char*>(arguments[i].c_str());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  pid_t child = -1;
  const int error = posix_spawnp(&child, pointers[0], &actions, nullptr, pointers, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) {
    return Status(
        Code::kUnsupported,
        "PNG needs the program rsvg-convert (Debian's package librsvg2-bin), which is not installed; --svg needs nothing");
  }
  if (error != 0) return system_error("rsvg-convert", error);
  return child;
}

}  // namespace

Status write_png(const std::string& svg, const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe to rsvg-convert", errno);
  FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  ASSIGN_OR_RETURN(const pid_t child, start_converter(read_end.get(), path));
  read_end.reset();
  // A converter that stops early shows by its status.
  void (*const handler)(int) = signal(SIGPIPE, SIG_IGN);
  for (size_t done = 0; done < svg.size();) {
    const ssize_t bytes = write(write_end.get(), svg.data() + done, svg.size() - done);
    if (bytes < 0 && errno != EINTR) break;
    if (bytes > 0) done += static_cast<size_t>(bytes);
  }
  write_end.reset();
  signal(SIGPIPE, handler);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return {Code::kSystem, path + ": rsvg-convert could not write it"};
  return {};
}

}  // namespace gimbal
