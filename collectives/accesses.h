// Which places a step reads and writes: the one statement of it, for link() and for those who check link().
#pragma once

#include "collectives/schedule.h"

namespace gimbal {

inline bool on_send_cursor(const Step& step) { return step.op == Op::kSend; }

// The rank a step sends to: of a send its peer, of a fused step forward_to, else kNoRank.
inline Rank sends_to(const Step& step) { return step.op == Op::kSend ? step.peer : step.forward_to; }

// The rank a step receives from, or kNoRank.
inline Rank receives_from(const Step& step) { return step.op == Op::kSend ? kNoRank : step.peer; }

// Elements (input and output of a chunk are one place, since they may be the same memory) and partials.
enum class Place : uint8_t { kElements, kScratch };
inline constexpr size_t kPlaceCount = 2;

inline bool in_place(BufferId buffer, Place place) {
  switch (buffer) {
    case BufferId::kInput:
    case BufferId::kOutput:
      return place == Place::kElements;
    case BufferId::kScratch:
      return place == Place::kScratch;
    case BufferId::kNone:
      return false;
  }
  return false;
}

inline bool reads(const Step& step, Place place) {
  return in_place(step.src, place) || (step.op == Op::kReduce && place == Place::kScratch);
}

inline bool writes(const Step& step, Place place) { return in_place(step.dst, place); }

}  // namespace gimbal
