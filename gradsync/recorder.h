// What became of each bucket, and when: the spans from which the timeline is made.
//
// Thread safety: one thread adds at a time. The caller's thread begins steps while the worker's has nothing to do.
#pragma once

#include <cstdint>
#include <vector>

#include "base/deadline.h"

namespace gimbal::gradsync {

// In the order in which a bucket meets them.
enum class Activity : uint32_t {
  kStep,     // of no bucket: from its first bucket's start to the end of the wait
  kExposed,  // of no bucket: the caller waits
  kReady,    // complete, and an earlier bucket is not
  kQueued,   // given to the worker
  kReduce,   // an all-reduce of the gradients as they are
  kEncode,
  kScatter,  // until the parts of all ranks have come
  kCombine,
  kGather,  // until all sums have come
  kDecode,
  kDone,  // reduced, and not waited for yet
};
inline constexpr uint32_t kActivities = 11;

// Plain data, as it travels to rank 0.
struct Span {
  uint64_t step;
  uint32_t track;  // 0: the step's; a bucket's id + 1
  Activity activity;
  int64_t begin_ns;
  int64_t end_ns;
};

class Recorder {
 public:
  // Of so many last steps; 0: nothing is recorded.
  explicit Recorder(uint64_t steps) : steps_(steps) {}

  [[nodiscard]] bool on() const { return steps_ != 0; }
  // 0 while nothing is recorded: a look at the clock for nothing.
  [[nodiscard]] int64_t now() const { return on() ? monotonic_ns() : 0; }
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }

  void begin_step(uint64_t step) {
    step_ = step;
    std::erase_if(spans_, [&](const Span& span) { return span.step + steps_ <= step; });
  }
  void add(uint32_t track, Activity activity, int64_t begin_ns, int64_t end_ns) {
    if (on()) spans_.push_back({step_, track, activity, begin_ns, end_ns});
  }
  // From begin_ns until now, which it returns.
  int64_t add_until_now(uint32_t track, Activity activity, int64_t begin_ns) {
    const int64_t end_ns = now();
    add(track, activity, begin_ns, end_ns);
    return end_ns;
  }

 private:
  uint64_t steps_;
  uint64_t step_ = 0;
  std::vector<Span> spans_;
};

}  // namespace gimbal::gradsync
