// Runs jobs one after the other on a thread of its own, while the owner computes. After a job that fails none runs any more,
// and every later wait returns its error.
//
// Used by one thread. A child of fork() has no such thread: waiting there is INVALID_USAGE, and destruction leaves it alone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"

namespace gimbal::gradsync {

class Worker {
 public:
  using Job = std::function<Status()>;

  Worker();
  // Waits for the jobs that were given.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The job's number, from 1.
  uint64_t give(Job job);
  // Until the job has ended, or for the time: whether it has.
  bool wait(uint64_t job, int64_t timeout_ms);
  // Of the jobs that have ended; in a child of fork(), that it is one.
  [[nodiscard]] Status status() const;

 private:
  struct Shared;

  std::unique_ptr<Shared> shared_;
  pid_t owner_;
};

}  // namespace gimbal::gradsync
