// A group of ranks, seen from one of them: the connection, the shared memory, the choice of algorithms and the outer loop that
// waits.
//
// Thread safety: one thread at a time calls run, start, split and the like; a progress thread runs started operations beside
// it. abort(), status() and dump() may be called from any thread.
//
// Ranks of one node meet in its memory. Where a communicator spans nodes, operations are schedules over endpoints, and what
// else ranks tell each other in memory goes as news over the control connections (RemoteNews).
//
// Owners: the caller's thread owns blocking operations, the progress thread the started ones; a blocking collective begins when
// every started collective has completed. The first error sticks and reaches all ranks of the node through NodeMemory's fault
// word.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/parking.h"
#include "base/status.h"
#include "collectives/node_shape.h"
#include "gimbal/gimbal.h"
#include "runtime/allocations.h"
#include "runtime/call.h"
#include "runtime/choice.h"
#include "runtime/cpu_spreader.h"
#include "runtime/flight_recorder.h"
#include "runtime/fork_guard.h"
#include "runtime/machine_knowledge.h"
#include "runtime/metrics.h"
#include "runtime/node_context.h"
#include "runtime/node_memory.h"
#include "runtime/operation.h"
#include "runtime/remote_news.h"
#include "runtime/settings.h"
#include "runtime/signature.h"
#include "runtime/straggler.h"
#include "runtime/wait_statistics.h"
#include "transport/bootstrap.h"
#include "transport/poll_sleeper.h"

namespace gimbal {

class DeviceOperations;
class Links;
class NativeSetup;
class RemoteLinks;
class ScheduledOperations;
class Request;
class StartedOperations;

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  static Result<std::shared_ptr<Communicator>> create(const gimbal_config_t* config);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] Rank rank() const { return settings_.rank; }
  [[nodiscard]] Rank size() const { return settings_.size; }
  // Ranks of one node have the same number.
  [[nodiscard]] int32_t node() const { return size() == 1 ? 0 : static_cast<int32_t>(nodes_.node_of(rank())); }
  [[nodiscard]] const std::string& name() const { return settings_.name; }
  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const Log& log() const { return log_; }
  [[nodiscard]] double cpus() const { return cpus_; }
  [[nodiscard]] bool spans_nodes() const { return news_ != nullptr; }

  [[nodiscard]] Status check_not_forked() const;
  // Usable now: not in a forked child, and no error sticks. Every entry point begins with it.
  [[nodiscard]] Status check_usable() const;

  // Gives up what is under way and tells the peers that this rank leaves in good order. Nothing but destruction may follow.
  void close();

  // Blocking on host memory, enqueued on device memory. The call has been checked at the C boundary.
  Status run(const Call& call);
  // The same, begun only.
  Result<std::shared_ptr<Request>> start(const Call& call);

  // Collective over the control connections, not over data: they may be called between any two operations.
  Result<std::shared_ptr<Communicator>> split(int32_t color, int32_t key);
  // Among those that are left after a failure; see gimbal_comm_shrink.
  Result<std::shared_ptr<Communicator>> shrink();
  Result<void*> allocate(size_t bytes);
  Status free(void* pointer);
  // Local.
  Status register_memory(void* pointer, size_t bytes);
  Status deregister_memory(void* pointer);

  // From any thread.
  void abort();
  [[nodiscard]] Status status() const;
  Status dump(const std::string& path) const;

  void read_stats(gimbal_stats_t& stats) const;
  // By the caller's thread: the first call may look the machine over.
  std::string explain(Collective collective, size_t bytes, DType dtype);

  StartedOperations& started();
  // By the caller; `device` is that of its first call on device memory.
  DeviceOperations& device_operations(int device);
  // Whose kernels end when this communicator fails, and whose reports are its status; null: nobody's.
  void watch_device(const NativeSetup* setup);

  // For calibrate().
  void choose(const MeasuredChoice& measured) { choice_.set_measured(measured); }
  // What a call without anything special would take.
  [[nodiscard]] Way way(Collective collective, size_t bytes, DType dtype) const;
  // For measure_ways(); equal on all ranks.
  void override_way(const std::optional<Way>& way) { choice_.override_way(way); }
  // As if no operation had run yet; on all ranks, and before any of them runs the next one.
  void forget_operations();
  // Collective: rank 0's value, on all ranks.
  Result<MeasuredChoice> adopt_first_rank(const MeasuredChoice& mine);

  // For those that run operations (this class, StartedOperations, groups).

  // Takes the next place in the order of collectives; 0 is for messages.
  uint32_t next_sequence() {
    if (++sequence_ == 0) ++sequence_;
    return sequence_;
  }
  // An operation ready to progress; the call and the signature must outlive it.
  Result<std::unique_ptr<Operation>> make_operation(const Call& call, const Signature& signature);
  // Waits until the operation is done, or for its error.
  Status drive(Operation& operation, const Signature& signature);
  // What a waiting thread looks at now and then: the fault word, peers' lives and announcements, the deadline.
  Status look_around(const Operation& operation, const Signature& signature, WaitClock& clock);
  // Makes an error stick and tells the node, unless only the call is lost.
  Status fail(const Status& error, const Signature* signature);
  [[nodiscard]] bool faulted() const { return memory_ != nullptr && memory_->faulted(); }
  Status adopt_fault();
  // Who waits: the caller's thread, or the progress thread.
  enum class Waiting : uint8_t { kCaller, kBackground };
  // For a wait of more than one rank; the policy must outlive it.
  [[nodiscard]] Waiter make_waiter(const WaitPolicy& policy, Waiting waiting) const;
  // After a look in vain at operations on these links: this thread's next sleep ends when something arrives there.
  struct Driven {
    bool collectives;
    bool messages;
  };
  void prepare_sleep(Waiting waiting, Driven driven) const;
  // Wakes this rank's own waits.
  void ring_self() const;
  [[nodiscard]] const WaitPolicy& wait_policy() const { return policy_; }
  [[nodiscard]] const WaitPolicy& background_policy() const { return background_policy_; }
  FlightRecorder& recorder() { return recorder_; }
  // By the caller's thread, and by whoever drives started operations: each has counters that only it writes.
  void count_operation(size_t bytes) { own_count_.add(bytes); }
  void count_background_operation(size_t bytes) { background_count_.add(bytes); }
  void count_error() { errors_.fetch_add(1, std::memory_order_relaxed); }
  // Between operations: never while one is under way on this rank.
  void write_metrics_if_due();

 private:
  Communicator(Settings settings, Log log);

  static Result<std::shared_ptr<Communicator>> connect(std::shared_ptr<Communicator> communicator,
                                                       std::unique_ptr<Bootstrap> bootstrap, Deadline deadline);
  Status make_ready(Deadline deadline);
  Status agree_on_settings(Deadline deadline);
  // differently_tuned: a rank whose tune cache is not rank 0's; 0: none.
  void adopt_tuning(Rank differently_tuned, double cpus);
  Status map_node(Deadline deadline);
  Status meet_other_nodes(Deadline deadline);

  Status run_single(const Call& call);
  Status run_collective(const Call& call);
  Status run_message(const Call& call);
  // Behind what is under way, driven with it.
  Status run_started(const Call& call);
  Result<std::shared_ptr<SharedSegment>> share_allocation(size_t bytes, size_t part_bytes);
  Result<std::shared_ptr<Communicator>> split_members(int32_t color, int32_t key);
  // A communicator of some of this one's ranks; its settings but for rank and size. See Bootstrap::derive.
  Result<std::shared_ptr<Communicator>> derive(std::span<const Rank> members, Settings settings, uint64_t tag,
                                               Deadline deadline);
  // REMOTE naming the first rank that ended without having left in good order.
  [[nodiscard]] Status find_dead_peer();
  Status run_now(const Call& call, const Signature& signature);
  Status check_peers(const Operation& operation, WaitClock& clock);
  [[nodiscard]] bool has_departed(Rank peer) const;
  // MISMATCH when a peer has announced another call under this number.
  Status compare_announced(const Signature& mine);
  // Takes over a fault that another node has told, and returns it.
  Status hear_other_nodes();
  Status find_cause(const Status& seen);
  [[nodiscard]] bool is_local(Rank peer) const { return nodes_.node_of(peer) == nodes_.node_of(rank()); }
  [[nodiscard]] RankControl& control(Rank local_peer) const { return memory_->control(nodes_.local_rank(local_peer)); }
  [[nodiscard]] bool has_announced(Rank peer, uint32_t sequence) const;
  [[nodiscard]] Status deadline_passed(const Operation& operation, const Signature& signature, double waited_s) const;
  [[nodiscard]] std::string describe_rank(Rank rank) const;
  [[nodiscard]] std::string describe_late(const Operation& operation, const Signature& signature) const;
  [[nodiscard]] std::string expand_path(const std::string& pattern) const;  // %r, %p, %h, %n
  void write_flight_recorder() const;
  void look_at_metrics();
  void write_metrics();
  void report(const Straggler& straggler);

  Settings settings_;
  Log log_;
  ForkGuard fork_guard_;
  std::unique_ptr<Bootstrap> bootstrap_;
  NodeShape nodes_;
  std::unique_ptr<NodeMemory> memory_;  // of this rank's node
  std::unique_ptr<NodeContext> context_;
  std::unique_ptr<RemoteNews> news_;                      // null in a communicator of one node
  std::array<std::unique_ptr<PollSleeper>, 2> sleepers_;  // by Waiting; null in a communicator of one node
  std::unique_ptr<RemoteLinks> remote_links_;             // null in a communicator of one node
  std::unique_ptr<Links> collective_links_;
  std::unique_ptr<Links> message_links_;
  std::unique_ptr<ScheduledOperations> scheduled_;
  Allocations allocations_;
  std::map<void*, size_t> registered_;  // by gimbal_register
  std::shared_ptr<const MachineKnowledge> machine_;
  double cpus_ = 1;  // that the node's ranks may use together
  Choice choice_;
  std::optional<Tuner> estimates_;  // made by the first explain()
  WaitPolicy policy_ = {};
  AdaptiveWaitPolicy adaptive_policy_;  // of blocking calls
  WaitPolicy background_policy_ = {};
  bool oversubscribed_ = false;
  bool waited_ = false;  // the last drive() did not end at its first looks
  CpuSpreader spreader_;
  FlightRecorder recorder_;
  ClockOffset clock_;
  WaitStatistics waits_;
  StragglerWatch straggler_watch_;
  std::unique_ptr<MetricsFile> metrics_;  // null without GIMBAL_METRICS_FILE
  uint32_t unlooked_ = 0;                 // operations since the last look at the metrics' clock
  std::atomic<bool> metrics_warned_{false};
  bool closed_ = false;
  uint32_t sequence_ = 0;
  uint64_t children_ = 0;  // meshes derived from this one
  OperationCount own_count_;
  OperationCount background_count_;
  std::atomic<uint64_t> errors_{0};

  mutable std::mutex status_mutex_;
  Status status_;                              // guarded by status_mutex_
  const NativeSetup* device_setup_ = nullptr;  // guarded by status_mutex_
  std::atomic<bool> failed_{false};            // status_ is an error
  std::atomic<bool> aborted_{false};           // by this rank

  std::mutex started_mutex_;
  std::unique_ptr<StartedOperations> started_;  // made by the first start

  std::unique_ptr<DeviceOperations> device_;  // made by the first call on device memory
};

}  // namespace gimbal
