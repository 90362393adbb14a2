// A step of a plan (runtime/plan.h): the same bytes for the CPU executor, a GPU and whoever serves its remote peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/types.h"

namespace gimbal {

// What they do: collectives/schedule.h.
enum class Op : uint8_t { kSend, kRecv, kRecvReduce, kCopy, kReduce, kRecvSend, kRecvReduceSend };
enum class BufferId : uint8_t { kInput, kOutput, kScratch, kNone };
// Values of the element type or of the accumulator type (accumulator_type()).
enum class Form : uint8_t { kElement, kPartial };
// kSends goes over the schedule's kSend steps, kOthers over the rest.
enum class Cursor : uint8_t { kSends, kOthers };

inline constexpr Rank kNoRank = -1;
inline constexpr size_t kCursorCount = 2;
inline constexpr uint32_t kNoPosition = std::numeric_limits<uint32_t>::max();

// Where results of a step go: into a slot of the link, or into a buffer.
struct PlanTarget {
  Form form = Form::kElement;
  bool divides = false;  // the value is final
  bool is_copy = false;  // the step's only source already has these bytes
};

struct PlanStep {
  size_t elements = 0;
  // Bytes from the start of the buffer.
  size_t src_offset = 0;
  size_t dst_offset = 0;
  size_t left_offset = 0;           // kReduce: the left operand, in kScratch
  Rank peer = kNoRank;              // whom a message comes from
  Rank to = kNoRank;                // whom a message goes to
  uint32_t after = kNoPosition;     // on after_cursor, in the same segment
  uint32_t previous = kNoPosition;  // on the other cursor, in the segment before: its last message to the same peer
  uint32_t schedule_step = 0;
  Op op = Op::kSend;
  Cursor after_cursor = Cursor::kSends;
  BufferId src = BufferId::kNone;
  BufferId dst = BufferId::kNone;
  Form received_form = Form::kElement;
  Form src_form = Form::kElement;
  PlanTarget sent;
  PlanTarget stored;
  bool same_targets = false;  // one call of the kernel serves both
};

}  // namespace gimbal
