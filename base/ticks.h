// A clock for measuring that costs a few nanoseconds: the time stamp counter where there is one, else the monotonic clock.
//
// Ticks are for differences and for the flight recorder; deadlines use monotonic_ns().
#pragma once

#include <cstdint>

#include "base/deadline.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace gimbal {

inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(monotonic_ns());
#endif
}

// Turns ticks into nanoseconds of the monotonic clock, by two points on both clocks: its creation and the conversion.
class TickScale {
 public:
  TickScale() : ticks_(ticks()), ns_(monotonic_ns()) {}
  [[nodiscard]] double ns_per_tick() const {
    const uint64_t now_ticks = ticks();
    const int64_t now_ns = monotonic_ns();
    return now_ticks == ticks_ ? 1.0 : static_cast<double>(now_ns - ns_) / static_cast<double>(now_ticks - ticks_);
  }
  [[nodiscard]] int64_t to_ns(uint64_t at, double ns_per_tick) const {
    return ns_ + static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(at - ticks_)) * ns_per_tick);
  }

 private:
  uint64_t ticks_;
  int64_t ns_;
};

}  // namespace gimbal
