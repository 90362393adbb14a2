// Steps whose buckets are reduced by the worker's thread: what is not an all-reduce of the gradients as they are.
#include <algorithm>
#include <limits>

#include "base/deadline.h"
#include "gradsync/calls.h"
#include "gradsync/codec_reducer.h"
#include "gradsync/synchronizer.h"
#include "gradsync/wire_reducer.h"

namespace gimbal::gradsync {

Status Synchronizer::make_reducer() {
  if (options_.codec) {
    reducer_ = std::make_unique<CodecReducer>(comm_, *options_.codec, StateOwner{rank_, size_}, parameters_, layout_);
  } else {
    ASSIGN_OR_RETURN(reducer_, WireReducer::create(comm_, options_.wire, options_.wire_between_nodes, parameters_, layout_));
  }
  worker_ = std::make_unique<Worker>();
  return {};
}

// By the worker. Weights that are not known beforehand are added up once a step, and not with each bucket.
Status Synchronizer::begin_background_step() {
  if (options_.uneven && !joined_) {
    active_here_ = 1;
    RETURN_IF_ERROR(complete([&](gimbal_request_t* request) {
      return gimbal_all_reduce_start(&active_here_, &active_anywhere_, 1, GIMBAL_INT32, GIMBAL_MAX, comm_, nullptr, request);
    }));
  }
  gimbal_request_t arrivals = nullptr;
  RETURN_IF_ERROR(say_arrival(&arrivals));
  RETURN_IF_ERROR(from_c(gimbal_wait(&arrivals)));
  total_ = options_.reduction == GIMBAL_GRADSYNC_SUM ? 1.0 : static_cast<double>(size_);
  if (options_.reduction == GIMBAL_GRADSYNC_SUM || (!weighted() && !options_.uneven)) return {};
  const double own = *weight_;
  RETURN_IF_ERROR(complete([&](gimbal_request_t* request) {
    return gimbal_all_reduce_start(&own, &total_, 1, GIMBAL_FLOAT64, GIMBAL_SUM, comm_, nullptr, request);
  }));
  if (total_ > 0) return {};
  return {Code::kInvalidArgument, "the weights of all ranks are 0 in this step"};
}

void Synchronizer::give_bucket(size_t bucket) {
  jobs_[bucket] = worker_->give([this, bucket]() -> Status {
    const Bucket& it = layout_.buckets[bucket];
    const int64_t begun = worker_recorder_.add_until_now(track_of(it), Activity::kQueued, times_[bucket].started_ns);
    if (reducer_->takes(it.dtype)) {
      RETURN_IF_ERROR(reducer_->reduce(it, memory_ + it.offset, {*weight_, total_}, worker_recorder_));
    } else {
      gimbal_request_t request = nullptr;
      RETURN_IF_ERROR(start_as_is(it, &request));
      RETURN_IF_ERROR(from_c(gimbal_wait(&request)));
      worker_recorder_.add_until_now(track_of(it), Activity::kReduce, begun);
    }
    times_[bucket].done_ns = worker_recorder_.now();
    return {};
  });
}

// An abort of the communicator from elsewhere must end what is under way on the reducer's own ones too.
Status Synchronizer::wait_for_job(uint64_t job) {
  constexpr int64_t kLookMs = 50;
  while (!worker_->wait(job, kLookMs)) {
    if (gimbal_comm_status(comm_) != GIMBAL_OK) reducer_->abort();
  }
  Status status = worker_->status();
  if (status.ok() || !loses_communicator(status.code())) return status;
  Status known = from_c(gimbal_comm_status(comm_));
  if (known.ok()) {
    // A communicator of the reducer's own has failed. All ranks meet on this one, which knows who has died.
    reducer_->abort();
    known = from_c(gimbal_barrier(comm_, nullptr));
    if (known.ok()) known = from_c(gimbal_comm_abort(comm_));
  }
  return known.ok() || known.code() == Code::kAborted ? status : known;
}

void Synchronizer::record_step() {
  const int64_t now = monotonic_ns();
  caller_recorder_.add(0, Activity::kStep, first_start_ns_, now);
  stats_.steps += 1;
  stats_.exposed_ns = static_cast<uint64_t>(exposed_ns_);
  stats_.all_exposed_ns += stats_.exposed_ns;
  stats_.span_ns = static_cast<uint64_t>(now - first_start_ns_);
  stats_.overlap_ns = stats_.span_ns > stats_.exposed_ns ? stats_.span_ns - stats_.exposed_ns : 0;
  stats_.sent_bytes = 0;
  const auto ranks = static_cast<uint64_t>(size_);
  for (const Bucket& bucket : layout_.buckets) {
    if (reducer_ != nullptr && reducer_->takes(bucket.dtype)) continue;
    stats_.sent_bytes += 2 * (ranks - 1) * bucket.count * dtype_size(bucket.dtype) / ranks;
  }
  if (reducer_ != nullptr) {
    stats_.sent_bytes += reducer_->sent_bytes() - sent_before_;
    sent_before_ = reducer_->sent_bytes();
  }
  find_late_rank();
}

// A step says when the one before it was complete: while its own gradients are computed that costs nobody anything.
Status Synchronizer::say_arrival(gimbal_request_t* request) {
  if (size_ == 1) return {};
  return from_c(gimbal_all_gather_start(&said_arrival_ns_, arrivals_ns_.data(), 1, GIMBAL_INT64, comm_, nullptr, request));
}

void Synchronizer::find_late_rank() {
  stats_.late_rank = -1;
  stats_.late_ns = 0;
  if (stats_.steps < 2 || size_ == 1) return;
  const auto last = std::ranges::max_element(arrivals_ns_);
  int64_t before_ns = std::numeric_limits<int64_t>::min();
  for (auto it = arrivals_ns_.begin(); it != arrivals_ns_.end(); ++it) {
    if (it != last) before_ns = std::max(before_ns, *it);
  }
  if (*last - before_ns <= clock_error_ns_) return;
  stats_.late_rank = static_cast<int32_t>(last - arrivals_ns_.begin());
  stats_.late_ns = static_cast<uint64_t>(*last - before_ns);
}

size_t Synchronizer::state_bytes() const {
  return gradsync::state_bytes(reducer_ == nullptr ? std::vector<StateSection>() : reducer_->state());
}

Status Synchronizer::save_state(std::span<std::byte> out) const {
  RETURN_IF_ERROR(require_between_steps("state_save"));
  const auto sections = reducer_ == nullptr ? std::vector<StateSection>() : reducer_->state();
  const size_t needed = gradsync::state_bytes(sections);
  if (out.size() != needed) {
    return {Code::kInvalidArgument,
            "bytes is " + std::to_string(out.size()) + "; gimbal_gradsync_state_bytes says " + std::to_string(needed)};
  }
  gradsync::save_state(sections, {rank_, size_}, out);
  return {};
}

Status Synchronizer::load_state(std::span<const std::byte> in) {
  RETURN_IF_ERROR(require_between_steps("state_load"));
  return gradsync::load_state(in, {rank_, size_}, reducer_ == nullptr ? std::vector<StateSection>() : reducer_->state());
}

}  // namespace gimbal::gradsync
