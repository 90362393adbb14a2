// A schedule bound to sizes, type, operation and links' limits: what the executor runs, any number of times, on any buffers.
//
// A plan keeps nothing of the schedule and of the layout that it was made from, and never changes.
//
// Messages. A step's elements travel in slices of slice_elements, each one message. A step longer than the window could fill
// it with a peer who waits to fill ours, so larger chunks are cut into segments of window - 1 slices, and the list of steps is
// carried out segment by segment: segment k of every chunk, then segment k + 1. (- 1: a fused step holds the slot that it
// reads until it has one to write, so that around a ring one slot per link must stay free. All ranks must cut alike, whether
// their own steps are fused or not.) With these limits a schedule that is free of deadlock with one message per step
// (collectives' verifier) is so here: cursors are sequential processes over bounded queues, and if one order of execution
// completes, all do. Small chunks are one segment, and a run of them one piece, which may exceed the window: only unfused steps
// have runs, and they need no room for a whole step.
//
// Wire types: kRaw and kFinal travel as elements, kPartial as accumulators. With element_partials partials are rounded to
// elements on the wire, but for integer averages, whose wide sums would wrap. With weighted, each rank's input is multiplied by
// its weight before it leaves, so that kRaw travels as accumulators too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/plan_step.h"
#include "base/status.h"
#include "base/types.h"
#include "collectives/schedule.h"
#include "kernels/reduce.h"
#include "runtime/chunk_table.h"

namespace gimbal {

struct PlanOptions {
  BufferLayout layout;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // unused by collectives that add nothing
  // Equal on all ranks: the least of all links.
  size_t slice_bytes = 0;
  // An endpoint's window w less what the algorithm needs more than once: 1 + (w - 1) / Algorithm::window_runs.
  size_t window = 1;
  bool element_partials = false;
  bool weighted = false;
};

struct Plan {
  uint8_t channels = 1;
  // By channel, then by cursor.
  std::vector<std::array<std::vector<PlanStep>, kCursorCount>> steps;
  std::array<size_t, 2> form_bytes = {1, 1};  // of one value, by Form
  size_t slice_elements = 1;
  size_t segment_elements = std::numeric_limits<size_t>::max();
  uint32_t segments = 1;
  size_t scratch_bytes = 0;
  double divisor = 1;
  ReduceFunction reduce = nullptr;  // null when nothing is added
  std::vector<Rank> peers;          // whom the steps exchange messages with, ascending

  [[nodiscard]] size_t bytes(Form form, size_t elements) const { return form_bytes[static_cast<size_t>(form)] * elements; }
};

// INTERNAL when the schedule names a chunk that this rank's buffers do not hold, UNSUPPORTED when a slice holds no element or
// the window no segment.
Result<Plan> make_plan(const Schedule& schedule, const PlanOptions& options);

}  // namespace gimbal
