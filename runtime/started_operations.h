// Operations that run while the caller computes: collectives one after the other in the order of their start, messages per peer
// and direction in order, all of them beside each other.
//
// A thread drives them while the caller computes (GIMBAL_PROGRESS_THREAD); a caller that waits drives them itself, since a
// hand-over to a sleeping thread costs 20-30 us and on a full machine the thread may not run at all. With
// GIMBAL_PROGRESS_CALLER there is no thread: start, wait and test drive. The thread sleeps when there is nothing to do or the
// caller drives.
//
// Thread safety: start, wait, test and wait_for_collectives by the communicator's one caller. Who drives holds drive_mutex_ for
// one step at a time; it is contended only in the moment in which caller and thread change places.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "runtime/call.h"
#include "runtime/communicator.h"
#include "runtime/operation.h"
#include "runtime/signature.h"
#include "runtime/wait_statistics.h"

namespace gimbal {

class Request {
 public:
  // Whether what the caller's stream has to do for the request is done too, once the host's part is.
  using StreamEnded = std::function<bool()>;

  Request(const Call& call, size_t ranks) : call_(call, ranks) {}
  [[nodiscard]] bool done() const {
    return done_.load(std::memory_order_acquire) && (stream_ended_ == nullptr || stream_ended_());
  }
  // By the caller, who alone asks done().
  void end_with_stream(StreamEnded ended) { stream_ended_ = std::move(ended); }
  // Once done.
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  friend class StartedOperations;
  OwnedCall call_;
  Signature signature_;
  std::unique_ptr<Operation> prepared_;   // made at the start
  std::unique_ptr<Operation> operation_;  // made, or taken from prepared_, when its turn comes
  StreamEnded stream_ended_;
  WaitClock clock_;
  uint64_t record_ = 0;  // of the flight recorder, once begun_
  bool begun_ = false;
  uint64_t moves_ = 0;
  Status status_;  // written before done_, read after
  std::atomic<bool> done_{false};
};

class StartedOperations {
 public:
  explicit StartedOperations(Communicator& communicator);
  // What has not completed is given up: its requests report ABORTED.
  ~StartedOperations();
  StartedOperations(const StartedOperations&) = delete;
  StartedOperations& operator=(const StartedOperations&) = delete;

  // prepare makes the operation now rather than when its turn comes; it refers to the call and signature that it is given, and
  // is driven by the thread whoever drives others: streams wait for it, and the caller only enqueues.
  using Prepare = std::function<std::unique_ptr<Operation>(const Call&, const Signature&)>;
  Result<std::shared_ptr<Request>> start(const Call& call, const Prepare& prepare = nullptr);
  void wait(Request& request);
  // Whether it has completed.
  bool test(Request& request);
  // Until no started collective is under way; OK also when one failed: its request says so.
  Status wait_for_collectives();
  [[nodiscard]] bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }

 private:
  using Queue = std::deque<std::shared_ptr<Request>>;

  void run_thread();
  void make_thread();
  void wake_thread();
  // One step under drive_mutex_, and then a look around when `due`; true when something moved.
  bool drive_once(Communicator::Waiting waiting, bool due);
  void take_inbox();
  // One round over everything that may move; true when something did.
  bool step();
  void step_messages(bool& moved);
  // True when the request has completed.
  bool advance(Request& request, bool& moved);
  void complete(Request& request, Status status);
  void complete_all(const Status& status);
  void drive_until(const std::atomic<uint64_t>* counter, const Request* request);
  // After a look in vain: deadlines, peers' lives.
  void look_around();
  [[nodiscard]] Request* oldest() const;

  Communicator& communicator_;
  const bool threaded_;

  std::mutex mutex_;
  std::condition_variable changed_;  // the thread has something to do, or must end
  Queue inbox_;                      // guarded by mutex_
  std::atomic<bool> stop_{false};
  std::atomic<bool> caller_drives_{false};

  std::atomic<uint64_t> pending_{0};
  std::atomic<uint64_t> pending_collectives_{0};

  std::mutex drive_mutex_;
  Queue collectives_;  // guarded by drive_mutex_, as are the requests' operations
  Queue messages_;     // guarded by drive_mutex_
  std::thread thread_;
};

}  // namespace gimbal
