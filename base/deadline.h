// A point on the monotonic clock by which a wait must have ended. Every wait takes one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace gimbal {

inline int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Deadline {
 public:
  static Deadline after_ms(int64_t timeout_ms) {
    constexpr int64_t kLongestMs = std::numeric_limits<int64_t>::max() / 1'000'000 / 2;
    return Deadline(monotonic_ns() + std::clamp<int64_t>(timeout_ms, 0, kLongestMs) * 1'000'000);
  }
  static Deadline never() { return Deadline(std::numeric_limits<int64_t>::max()); }

  [[nodiscard]] bool passed() const { return monotonic_ns() >= at_ns_; }
  [[nodiscard]] bool passed_at(int64_t now_ns) const { return now_ns >= at_ns_; }
  [[nodiscard]] int64_t at_ns() const { return at_ns_; }
  [[nodiscard]] int64_t remaining_ns() const { return std::max<int64_t>(0, at_ns_ - monotonic_ns()); }
  // For poll(): rounded up, so that a wait never ends just before the deadline and spins; at most a day.
  [[nodiscard]] int remaining_ms() const {
    constexpr int64_t kDayMs = 86'400'000;
    return static_cast<int>(std::min(kDayMs, (remaining_ns() + 999'999) / 1'000'000));
  }

 private:
  explicit Deadline(int64_t at_ns) : at_ns_(at_ns) {}
  int64_t at_ns_;
};

}  // namespace gimbal
