#include "runtime/straggler.h"

#include <algorithm>

namespace gimbal {

std::optional<Straggler> StragglerWatch::add(Rank late, uint64_t waited_ticks, uint64_t now_ticks) {
  if (factor_ == 0) return std::nullopt;
  if (count_ == 0) began_ticks_ = now_ticks - waited_ticks;
  ++count_;
  if (late >= 0 && static_cast<size_t>(late) < waits_.size()) {
    Waits& waits = waits_[static_cast<size_t>(late)];
    ++waits.count;
    waits.ticks += waited_ticks;
  }
  if (count_ < kWindow) return std::nullopt;
  const std::optional<Straggler> found = judge(now_ticks - began_ticks_);
  count_ = 0;
  std::ranges::fill(waits_, Waits{});
  if (!found) return std::nullopt;
  if (found->rank != reported_) {
    reported_ = found->rank;
    next_skip_ = 1;
    windows_to_skip_ = 0;
  }
  if (windows_to_skip_ > 0) {
    --windows_to_skip_;
    return std::nullopt;
  }
  windows_to_skip_ = next_skip_;
  next_skip_ *= 2;
  return found;
}

std::optional<Straggler> StragglerWatch::judge(uint64_t window_ticks) const {
  const auto most = std::ranges::max_element(waits_, [](const Waits& a, const Waits& b) { return a.ticks < b.ticks; });
  if (most == waits_.end() || most->count * 2 <= kWindow) return std::nullopt;
  Straggler found = {.rank = static_cast<Rank>(most - waits_.begin()), .waits = most->count, .window = kWindow};
  uint64_t others = 0;
  uint64_t others_ticks = 0;
  for (const Waits& waits : waits_) {
    if (&waits == &*most) continue;
    others += waits.count;
    others_ticks += waits.ticks;
  }
  found.mean_ticks = static_cast<double>(most->ticks) / static_cast<double>(most->count);
  if (others > 0) found.others_mean_ticks = static_cast<double>(others_ticks) / static_cast<double>(others);
  found.share = static_cast<double>(most->ticks) / static_cast<double>(std::max<uint64_t>(window_ticks, 1));
  const bool stands_out = found.mean_ticks > factor_ * found.others_mean_ticks && found.share >= kLeastShare;
  return stands_out ? std::optional(found) : std::nullopt;
}

}  // namespace gimbal
