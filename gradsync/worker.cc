#include "gradsync/worker.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace gimbal::gradsync {

struct Worker::Shared {
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  uint64_t given = 0;
  uint64_t ended = 0;
  bool stop = false;
  Status status;
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stop || !jobs.empty(); });
      if (jobs.empty()) return;
      const Job job = std::move(jobs.front());
      jobs.pop_front();
      if (status.ok()) {
        lock.unlock();
        Status result = job();
        lock.lock();
        status = std::move(result);
      }
      ++ended;
      changed.notify_all();
    }
  }
};

Worker::Worker() : shared_(std::make_unique<Shared>()), owner_(getpid()) {
  shared_->thread = std::thread([shared = shared_.get()] { shared->run(); });
}

Worker::~Worker() {
  if (getpid() != owner_) {
    // The thread is the parent's, and so may be the mutex: neither can be destroyed here.
    static_cast<void>(shared_.release());
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  shared_->thread.join();
}

uint64_t Worker::give(Job job) {
  if (getpid() != owner_) return shared_->given;
  uint64_t number = 0;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->jobs.push_back(std::move(job));
    number = ++shared_->given;
  }
  shared_->changed.notify_all();
  return number;
}

bool Worker::wait(uint64_t job, int64_t timeout_ms) {
  if (getpid() != owner_) return true;
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return shared_->ended >= job; });
}

Status Worker::status() const {
  if (getpid() != owner_) return {Code::kInvalidUsage, "the synchronizer belongs to the parent of this process, which forked"};
  const std::lock_guard lock(shared_->mutex);
  return shared_->status;
}

}  // namespace gimbal::gradsync
