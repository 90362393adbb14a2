// Reduces buckets in another form than they have in memory; by a Worker's thread, in the order in which all ranks start them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "gradsync/layout.h"
#include "gradsync/recorder.h"
#include "gradsync/state.h"

namespace gimbal::gradsync {

// The result of a step is the sum over ranks of mine * gradient, divided by total.
struct Share {
  double mine = 1;
  double total = 1;
};

// On the timeline.
inline uint32_t track_of(const Bucket& bucket) { return static_cast<uint32_t>(bucket.id) + 1; }

class BucketReducer {
 public:
  virtual ~BucketReducer() = default;
  // Whether buckets of this type are its own; the others are reduced as they are.
  [[nodiscard]] virtual bool takes(DType dtype) const = 0;
  // memory: of the bucket. Collective; the result has the same bits on all ranks.
  virtual Status reduce(const Bucket& bucket, std::byte* memory, const Share& share, Recorder& recorder) = 0;
  // What a checkpoint needs so that training goes on with the same bits.
  virtual std::vector<StateSection> state() = 0;
  // That this rank has sent since it was made.
  [[nodiscard]] virtual uint64_t sent_bytes() const = 0;
  // From any thread: what is under way on communicators of its own ends at once.
  virtual void abort() = 0;
};

}  // namespace gimbal::gradsync
