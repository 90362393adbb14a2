#include "gradsync/synchronizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/deadline.h"
#include "gradsync/calls.h"

namespace gimbal::gradsync {

Synchronizer::~Synchronizer() {
  worker_.reset();
  if (memory_ == nullptr) return;
  // Requests under way write into the memory; after an error they are done, so neither waits long.
  for (gimbal_request_t& request : requests_) gimbal_wait(&request);
  gimbal_wait(&active_request_);
  gimbal_wait(&arrivals_request_);
  // Fails on a communicator that has failed, which frees the memory with itself then.
  gimbal_mem_free(comm_, memory_);
}

Status Synchronizer::require_between_steps(const char* what) const {
  if (state_ == State::kBetweenSteps) return {};
  return {Code::kInvalidUsage, std::string(what) + " in the middle of a step: end it and wait for all gradients first"};
}

Status Synchronizer::set_weight(double weight) {
  if (!weighted()) return {Code::kInvalidUsage, "a weight belongs to GIMBAL_GRADSYNC_WEIGHTED_MEAN"};
  if (!(weight >= 0) || std::isinf(weight)) {
    return {Code::kInvalidArgument, "weight is " + std::to_string(weight) + "; allowed: 0 and greater, finite"};
  }
  RETURN_IF_ERROR(require_between_steps("weight"));
  weight_ = weight;
  return {};
}

Status Synchronizer::accumulate(bool on) {
  RETURN_IF_ERROR(require_between_steps("accumulate"));
  accumulating_ = on;
  return {};
}

void Synchronizer::open_step() {
  state_ = State::kOpen;
  caller_recorder_.begin_step(stats_.steps);
  worker_recorder_.begin_step(stats_.steps);
  std::fill(is_ready_.begin(), is_ready_.end(), uint8_t{0});
  for (size_t bucket = 0; bucket < layout_.buckets.size(); ++bucket)
    missing_[bucket] = layout_.buckets[bucket].parameters.size();
  completed_.clear();
  started_ = 0;
  exposed_ns_ = 0;
  first_start_ns_ = 0;
  if (!weighted()) weight_ = joined_ ? 0.0 : 1.0;
}

Status Synchronizer::ready(size_t parameter) {
  if (state_ == State::kEnded) return {Code::kInvalidUsage, "ready after step_end: wait for all gradients first"};
  if (accumulating_) {
    has_gradient_[parameter] = 1;
    return {};
  }
  if (state_ == State::kBetweenSteps) open_step();
  if (is_ready_[parameter] != 0) {
    return {Code::kInvalidUsage, "parameter \"" + parameters_[parameter].name + "\" is ready for the second time in this step"};
  }
  is_ready_[parameter] = 1;
  has_gradient_[parameter] = 1;
  for (const size_t bucket : layout_.held[parameter]) {
    if (--missing_[bucket] != 0) continue;
    completed_.push_back(bucket);
    times_[bucket].ready_ns = caller_recorder_.now();
  }
  RETURN_IF_ERROR(look_for_done());
  return start_complete_buckets();
}

Status Synchronizer::start_complete_buckets() {
  if (!weight_.has_value()) return {};  // step_end brings it
  while (started_ < layout_.buckets.size() && missing_[started_] == 0) {
    if (started_ == 0) RETURN_IF_ERROR(say_active());
    RETURN_IF_ERROR(start(started_));
    if (++started_ == layout_.buckets.size()) arrival_ns_ = monotonic_ns() + clock_offset_ns_;
  }
  return {};
}

// Ranks that have joined need to know whether there is a step at all: the first thing that a step sends.
Status Synchronizer::say_active() {
  first_start_ns_ = monotonic_ns();
  said_arrival_ns_ = arrival_ns_;
  if (worker_ != nullptr) {
    worker_->give([this] { return begin_background_step(); });
    return worker_->status();
  }
  if (options_.uneven && !joined_) {
    active_here_ = 1;
    RETURN_IF_ERROR(from_c(gimbal_all_reduce_start(&active_here_, &active_anywhere_, 1, GIMBAL_INT32, GIMBAL_MAX, comm_,
                                                   nullptr, &active_request_)));
  }
  return say_arrival(&arrivals_request_);
}

Status Synchronizer::start(size_t bucket) {
  record_start(bucket);
  if (worker_ == nullptr) return start_as_is(layout_.buckets[bucket], &requests_[bucket]);
  give_bucket(bucket);
  return {};
}

Status Synchronizer::start_as_is(const Bucket& bucket, gimbal_request_t* request) {
  std::byte* memory = memory_ + bucket.offset;
  const auto dtype = static_cast<gimbal_dtype_t>(bucket.dtype);
  if (!weighted() && !options_.uneven) {
    const gimbal_op_t op = options_.reduction == GIMBAL_GRADSYNC_SUM ? GIMBAL_SUM : GIMBAL_AVG;
    return from_c(gimbal_all_reduce_start(memory, memory, bucket.count, dtype, op, comm_, nullptr, request));
  }
  gimbal_reduce_options_t options = GIMBAL_REDUCE_OPTIONS_INIT;
  options.weight = *weight_;
  options.normalize = options_.reduction == GIMBAL_GRADSYNC_SUM ? 0 : 1;
  return from_c(
      gimbal_all_reduce_options_start(memory, memory, bucket.count, dtype, GIMBAL_SUM, &options, comm_, nullptr, request));
}

Status Synchronizer::end_step(double weight) {
  if (state_ == State::kEnded) return {Code::kInvalidUsage, "step_end twice: wait for all gradients first"};
  if (accumulating_) return {Code::kInvalidUsage, "step_end while gradients are accumulated: call accumulate with 0 first"};
  if (!(weight >= 0) || std::isinf(weight)) {
    return {Code::kInvalidArgument, "weight is " + std::to_string(weight) + "; allowed: 0 and greater, finite"};
  }
  if (!weighted() && weight != 1) {
    return {Code::kInvalidArgument,
            "weight is " + std::to_string(weight) + "; only GIMBAL_GRADSYNC_WEIGHTED_MEAN takes another than 1"};
  }
  if (weighted() && weight_.has_value() && weight != *weight_) {
    return {Code::kInvalidArgument, "weight is " + std::to_string(weight) + " at the end of the step, but " +
                                        std::to_string(*weight_) + " was announced before it"};
  }
  if (state_ == State::kBetweenSteps) open_step();
  RETURN_IF_ERROR(fill_missing());
  if (weighted()) weight_ = weight;
  RETURN_IF_ERROR(start_complete_buckets());
  state_ = State::kEnded;
  return {};
}

Status Synchronizer::fill_missing() {
  std::string names;
  size_t count = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (has_gradient_[i] != 0) continue;
    constexpr size_t kMostNamed = 5;
    if (++count <= kMostNamed) names += (count == 1 ? "\"" : ", \"") + parameters_[i].name + "\"";
  }
  if (count > 0 && !options_.zero_missing) {
    return {Code::kInvalidUsage, std::to_string(count) + " of " + std::to_string(parameters_.size()) +
                                     " parameters got no gradient in this step: " + names + (count > 5 ? ", ..." : "") +
                                     "; call ready for them, or set options.missing to GIMBAL_GRADSYNC_MISSING_ZERO"};
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (has_gradient_[i] == 0) std::ranges::fill(bytes_of(i), std::byte{0});
    if (is_ready_[i] == 0) RETURN_IF_ERROR(ready(i));
  }
  return {};
}

Status Synchronizer::finish(size_t bucket) {
  const Status status = worker_ == nullptr ? from_c(gimbal_wait(&requests_[bucket])) : wait_for_job(jobs_[bucket]);
  if (status.ok()) {
    record_consumption(bucket);
    return status;
  }
  const std::vector<size_t>& held = layout_.buckets[bucket].parameters;
  return {status.code(), "bucket " + std::to_string(bucket) + ", from \"" + parameters_[held.front()].name + "\" to \"" +
                             parameters_[held.back()].name + "\": " + std::string(status.message())};
}

void Synchronizer::add_exposed(int64_t begun_ns) {
  const int64_t now = monotonic_ns();
  exposed_ns_ += now - begun_ns;
  caller_recorder_.add(0, Activity::kExposed, begun_ns, now);
}

Status Synchronizer::wait(size_t parameter) {
  if (state_ != State::kEnded) return {Code::kInvalidUsage, "wait before step_end"};
  const int64_t begun = monotonic_ns();
  for (const size_t bucket : layout_.held[parameter]) RETURN_IF_ERROR(finish(bucket));
  add_exposed(begun);
  return {};
}

Status Synchronizer::wait_all() {
  if (state_ != State::kEnded) return {Code::kInvalidUsage, "wait before step_end"};
  const int64_t begun = monotonic_ns();
  RETURN_IF_ERROR(from_c(gimbal_wait(&active_request_)));
  RETURN_IF_ERROR(from_c(gimbal_wait(&arrivals_request_)));
  for (size_t bucket = 0; bucket < layout_.buckets.size(); ++bucket) RETURN_IF_ERROR(finish(bucket));
  add_exposed(begun);
  record_step();
  return finish_step();
}

Status Synchronizer::finish_step() {
  if (!order_is_agreed_) RETURN_IF_ERROR(agree_on_order());
  std::fill(has_gradient_.begin(), has_gradient_.end(), uint8_t{0});
  weight_.reset();
  state_ = State::kBetweenSteps;
  return {};
}

// The backward pass may complete gradients in another order than the reverse of the forward pass; rank 0's is everybody's.
Status Synchronizer::agree_on_order() {
  order_is_agreed_ = true;
  if (!options_.reorder || layout_.buckets.size() == 1) return {};
  std::vector<uint64_t> order(completed_.begin(), completed_.end());
  RETURN_IF_ERROR(from_c(gimbal_broadcast(order.data(), order.size(), GIMBAL_UINT64, 0, comm_, nullptr)));
  reorder(layout_, std::vector<size_t>(order.begin(), order.end()));
  return {};
}

Status Synchronizer::join() {
  if (!options_.uneven) return {Code::kInvalidUsage, "join needs options.uneven"};
  RETURN_IF_ERROR(require_between_steps("join"));
  joined_ = true;
  for (;;) {
    active_here_ = 0;
    RETURN_IF_ERROR(from_c(gimbal_all_reduce(&active_here_, &active_anywhere_, 1, GIMBAL_INT32, GIMBAL_MAX, comm_, nullptr)));
    if (active_anywhere_ == 0) break;
    open_step();
    weight_ = 0.0;
    for (size_t i = parameters_.size(); i-- > 0;) {  // in the order of a backward pass: rank 0's becomes everybody's
      std::ranges::fill(bytes_of(i), std::byte{0});
      RETURN_IF_ERROR(ready(i));
    }
    state_ = State::kEnded;
    RETURN_IF_ERROR(wait_all());
  }
  joined_ = false;
  return {};
}

Status Synchronizer::broadcast(std::span<void* const> values, int32_t root) {
  RETURN_IF_ERROR(require_between_steps("broadcast"));
  RETURN_IF_ERROR(from_c(gimbal_group_start()));
  Status first;
  for (size_t i = 0; i < values.size(); ++i) {
    Status status = from_c(gimbal_broadcast(values[i], parameters_[i].count, static_cast<gimbal_dtype_t>(parameters_[i].dtype),
                                            root, comm_, nullptr));
    if (first.ok()) first = std::move(status);
  }
  Status ended = from_c(gimbal_group_end());
  return first.ok() ? ended : first;
}

}  // namespace gimbal::gradsync
