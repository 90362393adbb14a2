// Which slice of a plan's channel comes next: the order of runtime/cpu_executor.cc, kept by one thread of the block.
#pragma once

#include "kernels/cuda/platform.h"
#include "kernels/cuda/shared.h"

namespace gimbal::device {

// A run of elements of one step that travels as one message.
struct Slice {
  const PlanStep* step;
  size_t first;
  size_t count;
};

class PlanWalk {
 public:
  __device__ PlanWalk(const InterpreterArguments& arguments, uint32_t channel) : arguments_(arguments) {
    for (uint32_t i = 0; i < kCursorCount; ++i) {
      const PlanRun run = arguments.runs[channel * kCursorCount + i];
      cursors_[i].steps = arguments.steps + run.first;
      cursors_[i].size = run.count;
      cursors_[i].finished = run.count == 0;
    }
  }

  [[nodiscard]] __device__ bool is_finished() const { return cursors_[0].finished && cursors_[1].finished; }

  // The cursor's next slice, if its step may begin. Steps without a part in this segment are passed: both sides know of them.
  __device__ bool next(uint32_t cursor, Slice* slice) {
    State& own = cursors_[cursor];
    while (!own.finished && (own.position > 0 || may_begin(cursor))) {
      const PlanStep& step = own.steps[own.next];
      const size_t start = start_of(own);
      const size_t part = minimum(step.elements - start, arguments_.segment_elements);
      if (part == 0) {
        finish_step(own);
        continue;
      }
      *slice = {&step, start + own.position, minimum(part - own.position, arguments_.slice_elements)};
      return true;
    }
    return false;
  }

  // The slice that next() gave last for this cursor is done.
  __device__ void pass(uint32_t cursor, size_t count) {
    State& own = cursors_[cursor];
    const size_t rest = own.steps[own.next].elements - start_of(own);
    own.position += count;
    if (own.position == minimum(rest, arguments_.segment_elements)) finish_step(own);
  }

 private:
  struct State {
    const PlanStep* steps = nullptr;
    uint64_t size = 0;
    uint64_t next = 0;
    uint64_t segment_start = 0;  // steps of all segments before this one
    size_t position = 0;         // elements done of the step's part in this segment
    uint32_t segment = 0;
    bool finished = true;

    [[nodiscard]] __device__ uint64_t completed() const { return segment_start + next; }
  };

  static __device__ size_t minimum(size_t a, size_t b) { return a < b ? a : b; }

  // Where the segment's part of the step begins. (With one segment, segment_elements is the greatest size_t.)
  [[nodiscard]] __device__ size_t start_of(const State& own) const {
    if (own.segment == 0) return 0;
    return minimum(own.segment * arguments_.segment_elements, own.steps[own.next].elements);
  }

  [[nodiscard]] __device__ bool may_begin(uint32_t cursor) const {
    const State& own = cursors_[cursor];
    const PlanStep& step = own.steps[own.next];
    if (step.after != kNoPosition) {
      const State& other = cursors_[static_cast<uint32_t>(step.after_cursor)];
      if (other.completed() <= own.segment * other.size + step.after) return false;
    }
    if (step.previous != kNoPosition && own.segment > 0) {
      const State& other = cursors_[1 - cursor];
      if (other.completed() <= (own.segment - 1) * other.size + step.previous) return false;
    }
    return true;
  }

  __device__ void finish_step(State& own) {
    own.position = 0;
    if (++own.next < own.size) return;
    if (own.segment + 1 == arguments_.segments) {
      own.finished = true;
      return;
    }
    own.next = 0;
    own.segment_start += own.size;
    ++own.segment;
  }

  const InterpreterArguments& arguments_;
  State cursors_[kCursorCount];
};

}  // namespace gimbal::device
