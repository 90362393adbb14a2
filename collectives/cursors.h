// The two cursors of one channel of one rank: the order rule of schedule.h, for those who walk through schedules in thought
// (verifier, simulator).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "collectives/accesses.h"
#include "collectives/schedule.h"

namespace gimbal {

class ChannelCursors {
 public:
  static constexpr size_t kOthers = 0;
  static constexpr size_t kSends = 1;
  static constexpr std::array<size_t, 2> kBoth = {kOthers, kSends};

  // The steps must outlive the cursors.
  ChannelCursors(std::span<const Step> steps, uint8_t channel) : steps_(steps), channel_(channel) {
    for (const size_t cursor : kBoth) seek(cursor);
  }

  [[nodiscard]] bool at_end(size_t cursor) const { return at_[cursor] == steps_.size(); }
  [[nodiscard]] size_t index(size_t cursor) const { return at_[cursor]; }
  [[nodiscard]] const Step& step(size_t cursor) const { return steps_[at_[cursor]]; }
  // Index of the step before on this cursor, or kNoStep.
  [[nodiscard]] int32_t last_completed(size_t cursor) const { return completed_[cursor]; }

  // Whether the step that this cursor's step comes after is complete.
  [[nodiscard]] bool may_begin(size_t cursor) const {
    const int32_t after = step(cursor).after;
    return after == kNoStep || completed_[cursor_of(steps_[static_cast<size_t>(after)])] >= after;
  }

  void complete(size_t cursor) {
    completed_[cursor] = static_cast<int32_t>(at_[cursor]++);
    seek(cursor);
  }

 private:
  static size_t cursor_of(const Step& step) { return on_send_cursor(step) ? kSends : kOthers; }

  void seek(size_t cursor) {
    size_t& at = at_[cursor];
    while (at < steps_.size() && (steps_[at].channel != channel_ || cursor_of(steps_[at]) != cursor)) ++at;
  }

  std::span<const Step> steps_;
  uint8_t channel_;
  std::array<size_t, 2> at_ = {0, 0};
  std::array<int32_t, 2> completed_ = {kNoStep, kNoStep};
};

}  // namespace gimbal
