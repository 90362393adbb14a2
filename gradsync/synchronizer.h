// The gradient synchronizer: counts gradients down, starts buckets in one agreed order, and ends steps.
//
// States of a step: open (gradients become ready, buckets are started), ended (step_end: everything is started), and between
// steps. Buckets are started in the layout's order only, whichever is complete first, so that all ranks start the same.
//
// Buckets that travel as they are are started operations of the communicator, in place. With a wire type every operation of a
// step is a blocking one of the worker's thread, which then has the communicator for itself from the first ready to the wait.
//
// Used by one thread at a time, as its communicator is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "gradsync/bucket_reducer.h"
#include "gradsync/layout.h"
#include "gradsync/parameters.h"
#include "gradsync/worker.h"

namespace gimbal::gradsync {

class Synchronizer {
 public:
  // Collective.
  static Result<std::unique_ptr<Synchronizer>> create(gimbal_comm_t comm, std::vector<Parameter> parameters,
                                                      const Options& options);
  ~Synchronizer();
  Synchronizer(const Synchronizer&) = delete;
  Synchronizer& operator=(const Synchronizer&) = delete;

  [[nodiscard]] int32_t rank() const { return rank_; }
  [[nodiscard]] size_t element_count(size_t parameter) const { return parameters_[parameter].count; }
  [[nodiscard]] size_t parameter_count() const { return parameters_.size(); }
  [[nodiscard]] void* gradient(size_t parameter) const { return memory_ + layout_.offsets[parameter]; }

  Status set_weight(double weight);
  Status accumulate(bool on);
  Status ready(size_t parameter);
  Status end_step(double weight);
  Status wait(size_t parameter);
  Status wait_all();
  Status join();
  Status broadcast(std::span<void* const> values, int32_t root);
  Status check(std::span<const void* const> values);
  [[nodiscard]] gimbal_gradsync_stats_t stats() const { return stats_; }
  // Collective, between steps. path: on rank 0.
  Status write_timeline(const char* path);
  [[nodiscard]] size_t state_bytes() const;
  Status save_state(std::span<std::byte> out) const;
  Status load_state(std::span<const std::byte> in);

 private:
  enum class State : uint8_t { kBetweenSteps, kOpen, kEnded };

  // Of a bucket in this step, while steps are recorded.
  struct BucketTimes {
    int64_t ready_ns = 0;
    int64_t started_ns = 0;
    int64_t done_ns = 0;
  };

  Synchronizer(gimbal_comm_t comm, std::vector<Parameter> parameters, const Options& options)
      : comm_(comm),
        parameters_(std::move(parameters)),
        options_(options),
        caller_recorder_(options.trace_steps),
        worker_recorder_(options.trace_steps) {}
  Status compare_manifests();
  Status choose_bucket_bytes();
  Status allocate();
  [[nodiscard]] bool weighted() const { return options_.reduction == GIMBAL_GRADSYNC_WEIGHTED_MEAN; }
  void open_step();
  Status start_complete_buckets();
  Status start(size_t bucket);
  // Of a bucket that is reduced in place, as it is.
  Status start_as_is(const Bucket& bucket, gimbal_request_t* request);
  Status say_active();
  // Until the bucket is reduced.
  Status finish(size_t bucket);
  Status make_reducer();
  void give_bucket(size_t bucket);
  Status begin_background_step();
  Status wait_for_job(uint64_t job);
  Status say_arrival(gimbal_request_t* request);
  void find_late_rank();
  void add_exposed(int64_t begun_ns);
  void record_step();
  Status look_for_done();
  void record_start(size_t bucket);
  void record_done(size_t bucket);
  void record_consumption(size_t bucket);
  [[nodiscard]] std::vector<std::string> track_names() const;
  [[nodiscard]] uint32_t track_of_bucket(size_t bucket) const { return track_of(layout_.buckets[bucket]); }
  Status fill_missing();
  Status finish_step();
  Status agree_on_order();
  Status require_between_steps(const char* what) const;
  [[nodiscard]] std::span<std::byte> bytes_of(size_t parameter) const {
    return {memory_ + layout_.offsets[parameter], parameters_[parameter].bytes()};
  }

  gimbal_comm_t comm_;
  int32_t rank_ = 0;
  int32_t size_ = 1;
  std::vector<Parameter> parameters_;
  Options options_;
  Layout layout_;
  std::byte* memory_ = nullptr;
  Recorder caller_recorder_;
  Recorder worker_recorder_;
  std::vector<BucketTimes> times_;          // by bucket
  std::unique_ptr<BucketReducer> reducer_;  // null: buckets travel as they are
  std::unique_ptr<Worker> worker_;          // with reducer_, and ends before it

  State state_ = State::kBetweenSteps;
  bool accumulating_ = false;
  bool joined_ = false;
  std::optional<double> weight_;            // of the step, once it is known
  std::vector<uint8_t> has_gradient_;       // by parameter: touched since the last reduction
  std::vector<uint8_t> is_ready_;           // by parameter, in this step
  std::vector<size_t> missing_;             // by bucket: parameters that are not ready
  std::vector<size_t> completed_;           // buckets in the order in which they became complete
  std::vector<gimbal_request_t> requests_;  // by bucket
  std::vector<uint64_t> jobs_;              // by bucket: the worker's job that reduces it
  size_t started_ = 0;                      // buckets
  double total_ = 1;                        // of the step: what the sum is divided by; the worker's
  int32_t active_here_ = 1;
  int32_t active_anywhere_ = 0;
  gimbal_request_t active_request_ = nullptr;
  // When the last bucket of the last step was started here, on rank 0's clock, and on every rank, of the step before.
  int64_t arrival_ns_ = 0;
  int64_t said_arrival_ns_ = 0;
  std::vector<int64_t> arrivals_ns_;
  gimbal_request_t arrivals_request_ = nullptr;
  int64_t clock_offset_ns_ = 0;
  int64_t clock_error_ns_ = 0;
  bool order_is_agreed_ = false;
  int64_t first_start_ns_ = 0;
  int64_t exposed_ns_ = 0;
  uint64_t sent_before_ = 0;  // the reducer's bytes at the beginning of the step
  gimbal_gradsync_stats_t stats_ = GIMBAL_GRADSYNC_STATS_INIT;
};

}  // namespace gimbal::gradsync
