// A small process beside the launcher that kills the ranks' process groups when the launcher dies without having stopped them
// (SIGKILL, a crash). The kernel's parent-death signal alone would miss the children of the ranks.
#pragma once

#include <sys/types.h>

#include "base/file_descriptor.h"
#include "base/status.h"

namespace gimbal {

class StrayGuard {
 public:
  // Forks: call it while this process has one thread.
  static Result<StrayGuard> start();

  StrayGuard(StrayGuard&& other) noexcept : pid_(std::exchange(other.pid_, -1)), to_guard_(std::move(other.to_guard_)) {}
  StrayGuard& operator=(StrayGuard&&) = delete;
  // The ranks are stopped: the guard ends and kills nobody.
  ~StrayGuard();

  // The group is killed if this process dies. Its leader must not be reaped before this object is gone, because until then the
  // kernel gives its number to nobody else.
  void watch(pid_t process_group);

 private:
  StrayGuard(pid_t pid, FileDescriptor to_guard) : pid_(pid), to_guard_(std::move(to_guard)) {}
  pid_t pid_;
  FileDescriptor to_guard_;
};

}  // namespace gimbal
