#include "tools/support/stray_guard.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <vector>

namespace gimbal {
namespace {

constexpr pid_t kAllStopped = 0;

// Reads numbers of process groups until the launcher says that they are stopped, or is gone.
[[noreturn]] void guard(int from_launcher) {
  // A session of its own: no signal meant for the launcher's terminal or group reaches the guard.
  setsid();
  prctl(PR_SET_NAME, "gimbal-guard");
  // The launcher's readers wait for the end of these streams.
  close(STDIN_FILENO);
  close(STDOUT_FILENO);
  close(STDERR_FILENO);
  std::vector<pid_t> groups;
  for (pid_t group = 0;;) {
    const ssize_t bytes = read(from_launcher, &group, sizeof(group));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes != sizeof(group)) break;
    if (group == kAllStopped) _exit(0);
    groups.push_back(group);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Result<StrayGuard> StrayGuard::start() {
  int ends[2];
  // A socket and not a pipe: writing to a guard that somebody has killed must not raise SIGPIPE here.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return system_error("start the stray guard", errno);
  FileDescriptor guard_end(ends[0]);
  FileDescriptor launcher_end(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return system_error("start the stray guard", errno);
  if (pid == 0) {
    launcher_end.reset();
    guard(guard_end.get());
  }
  return StrayGuard(pid, std::move(launcher_end));
}

void StrayGuard::watch(pid_t process_group) {
  // 4 bytes go into the socket whole or not at all. A guard that has been killed guards nothing; the job itself is not harmed.
  while (send(to_guard_.get(), &process_group, sizeof(process_group), MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

StrayGuard::~StrayGuard() {
  if (pid_ < 0) return;
  watch(kAllStopped);
  to_guard_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace gimbal
