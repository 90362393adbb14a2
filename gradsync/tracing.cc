// Spans of the caller's thread, and all ranks' spans to one file.
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "gradsync/calls.h"
#include "gradsync/synchronizer.h"
#include "gradsync/timeline.h"

namespace gimbal::gradsync {
namespace {

Status write_file(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (written) return {};
  return {Code::kSystem, "cannot write " + path + ": " + std::generic_category().message(errno)};
}

}  // namespace

// When a started operation has ended is seen at the caller's next call only.
Status Synchronizer::look_for_done() {
  if (!caller_recorder_.on() || worker_ != nullptr) return {};
  for (size_t bucket = 0; bucket < started_; ++bucket) {
    if (requests_[bucket] == nullptr) continue;
    int done = 0;
    RETURN_IF_ERROR(from_c(gimbal_test(&requests_[bucket], &done)));
    if (done == 1) record_done(bucket);
  }
  return {};
}

void Synchronizer::record_done(size_t bucket) {
  BucketTimes& times = times_[bucket];
  times.done_ns = caller_recorder_.add_until_now(track_of_bucket(bucket), Activity::kReduce, times.started_ns);
}

void Synchronizer::record_start(size_t bucket) {
  BucketTimes& times = times_[bucket];
  times.done_ns = 0;
  times.started_ns = caller_recorder_.add_until_now(track_of_bucket(bucket), Activity::kReady, times.ready_ns);
}

// A bucket is waited for by several parameters: the first one consumes it.
void Synchronizer::record_consumption(size_t bucket) {
  BucketTimes& times = times_[bucket];
  if (!caller_recorder_.on() || times.started_ns == 0) return;
  if (worker_ == nullptr && times.done_ns == 0) record_done(bucket);
  caller_recorder_.add_until_now(track_of_bucket(bucket), Activity::kDone, times.done_ns);
  times.started_ns = 0;
}

Status Synchronizer::write_timeline(const char* path) {
  RETURN_IF_ERROR(require_between_steps("timeline"));
  std::vector<Span> own = caller_recorder_.spans();
  own.insert(own.end(), worker_recorder_.spans().begin(), worker_recorder_.spans().end());
  for (Span& span : own) {
    span.begin_ns += clock_offset_ns_;
    span.end_ns += clock_offset_ns_;
  }
  const uint64_t count = own.size();
  std::vector<uint64_t> counts(static_cast<size_t>(size_));
  RETURN_IF_ERROR(from_c(gimbal_all_gather(&count, counts.data(), 1, GIMBAL_UINT64, comm_, nullptr)));
  // Rank 0 alone needs them, and one rank's at a time.
  if (rank_ != 0 && count != 0) {
    RETURN_IF_ERROR(from_c(gimbal_send(own.data(), count * sizeof(Span), GIMBAL_UINT8, 0, comm_, nullptr)));
  }
  Status written;
  if (rank_ == 0) {
    std::vector<std::vector<Span>> spans(counts.size());
    for (size_t rank = 0; rank < counts.size(); ++rank) spans[rank].resize(counts[rank]);
    spans[0] = std::move(own);
    for (int32_t rank = 1; rank < size_; ++rank) {
      std::vector<Span>& theirs = spans[static_cast<size_t>(rank)];
      if (theirs.empty()) continue;
      RETURN_IF_ERROR(from_c(gimbal_recv(theirs.data(), theirs.size() * sizeof(Span), GIMBAL_UINT8, rank, comm_, nullptr)));
    }
    written = write_file(path, timeline_json(spans, track_names()));
  }
  int32_t failed = written.ok() ? 0 : 1;
  RETURN_IF_ERROR(from_c(gimbal_broadcast(&failed, 1, GIMBAL_INT32, 0, comm_, nullptr)));
  if (failed == 0 || rank_ == 0) return written;
  return {Code::kSystem, "rank 0 could not write the timeline"};
}

std::vector<std::string> Synchronizer::track_names() const {
  std::vector<std::string> names(layout_.buckets.size());
  for (const Bucket& bucket : layout_.buckets) {
    const Parameter& first = parameters_[bucket.parameters.front()];
    const Parameter& last = parameters_[bucket.parameters.back()];
    names[bucket.id] = "bucket " + std::to_string(bucket.id) + ": " + first.name + (&first == &last ? "" : " to " + last.name);
  }
  return names;
}

}  // namespace gimbal::gradsync
