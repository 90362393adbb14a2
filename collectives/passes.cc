#include "collectives/passes.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/status.h"
#include "collectives/accesses.h"

namespace gimbal {
namespace {

// Whether `second` only passes on what `first` has just received or added up.
bool is_forwarding(const Step& first, const Step& second) {
  const bool receives = first.op == Op::kRecvReduce || (first.op == Op::kRecv && first.payload == second.payload);
  return receives && second.op == Op::kSend && first.channel == second.channel && first.chunk == second.chunk &&
         first.count == second.count && first.dst == second.src;
}

Step forwarding(const Step& first, const Step& second, bool keeps_result) {
  Step fused = first;
  fused.op = first.op == Op::kRecv ? Op::kRecvSend : Op::kRecvReduceSend;
  fused.sent = second.payload;
  fused.forward_to = second.peer;
  if (!keeps_result) fused.dst = BufferId::kNone;
  return fused;
}

// Chunks of scratch that a later step reads, seen from the end of the list.
class Liveness {
 public:
  explicit Liveness(uint32_t chunk_count) : live_(chunk_count) {}

  [[nodiscard]] bool any(const Step& step) const {
    return std::any_of(begin(step), begin(step) + step.count, [](bool live) { return live; });
  }
  void step_back_over(const Step& step) {
    if (writes(step, Place::kScratch)) fill(step, false);
    if (reads(step, Place::kScratch)) fill(step, true);
  }

 private:
  [[nodiscard]] std::vector<bool>::const_iterator begin(const Step& step) const { return live_.begin() + step.chunk; }
  void fill(const Step& step, bool value) { std::fill_n(live_.begin() + step.chunk, step.count, value); }

  std::vector<bool> live_;
};

// The last step of each cursor that read or wrote a place, for one channel.
class LastAccess {
 public:
  explicit LastAccess(uint32_t chunk_count) {
    for (auto& cursors : last_) {
      for (auto& accesses : cursors) accesses.assign(chunk_count, Accesses());
    }
  }

  // The last step on the other cursor that `step` must not overtake.
  [[nodiscard]] int32_t conflict(const Step& step) const {
    const size_t other = on_send_cursor(step) ? 0 : 1;
    int32_t last = kNoStep;
    for (size_t place = 0; place < kPlaceCount; ++place) {
      const bool writes_place = writes(step, static_cast<Place>(place));
      if (!writes_place && !reads(step, static_cast<Place>(place))) continue;
      for (uint32_t c = step.chunk; c < step.chunk + step.count; ++c) {
        const Accesses& accesses = last_[place][other][c];
        last = std::max(last, writes_place ? std::max(accesses.read, accesses.write) : accesses.write);
      }
    }
    const auto sent = sends_[other].find(sends_to(step));
    return sends_to(step) != kNoRank && sent != sends_[other].end() ? std::max(last, sent->second) : last;
  }

  void record(const Step& step, int32_t index) {
    const size_t cursor = on_send_cursor(step) ? 1 : 0;
    for (size_t place = 0; place < kPlaceCount; ++place) {
      const bool reads_place = reads(step, static_cast<Place>(place));
      const bool writes_place = writes(step, static_cast<Place>(place));
      if (!reads_place && !writes_place) continue;
      for (uint32_t c = step.chunk; c < step.chunk + step.count; ++c) {
        if (reads_place) last_[place][cursor][c].read = index;
        if (writes_place) last_[place][cursor][c].write = index;
      }
    }
    if (sends_to(step) != kNoRank) sends_[cursor][sends_to(step)] = index;
  }

 private:
  struct Accesses {
    int32_t read = kNoStep;
    int32_t write = kNoStep;
  };
  std::array<std::array<std::vector<Accesses>, 2>, kPlaceCount> last_;
  std::array<std::map<Rank, int32_t>, 2> sends_;
};

}  // namespace

Schedule fuse(const Schedule& schedule) {
  Schedule fused;
  fused.chunk_count = schedule.chunk_count;
  fused.channels = schedule.channels;
  const std::vector<Step>& steps = schedule.steps;
  Liveness scratch(schedule.chunk_count);
  for (size_t i = steps.size(); i-- > 0;) {
    GIMBAL_DCHECK(steps[i].after == kNoStep);
    if (i > 0 && is_forwarding(steps[i - 1], steps[i])) {
      const bool keeps_result = steps[i].src != BufferId::kScratch || scratch.any(steps[i]);
      fused.steps.push_back(forwarding(steps[i - 1], steps[i], keeps_result));
      --i;
    } else {
      fused.steps.push_back(steps[i]);
    }
    scratch.step_back_over(fused.steps.back());
  }
  std::reverse(fused.steps.begin(), fused.steps.end());
  return fused;
}

Schedule link(Schedule schedule) {
  for (uint8_t channel = 0; channel < schedule.channels; ++channel) {
    LastAccess last(schedule.chunk_count);
    for (size_t i = 0; i < schedule.steps.size(); ++i) {
      Step& step = schedule.steps[i];
      if (step.channel != channel) continue;
      step.after = last.conflict(step);
      last.record(step, static_cast<int32_t>(i));
    }
  }
  return schedule;
}

}  // namespace gimbal
