// Finds the rank that the others wait for: in one window of waits, one rank that is the last to arrive most of the time, far
// later than others are, and at a price.
//
// Used by the one thread that runs blocking calls.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"

namespace gimbal {

struct Straggler {
  Rank rank = -1;
  uint64_t waits = 0;            // for it
  uint64_t window = 0;           // waits in all
  double mean_ticks = 0;         // of a wait for it
  double others_mean_ticks = 0;  // of a wait for another rank; 0: there was none
  double share = 0;              // of the window's time that went into waiting for it
};

class StragglerWatch {
 public:
  static constexpr uint64_t kWindow = 256;  // waits
  // Below this share of the time nobody would gain by looking for the cause.
  static constexpr double kLeastShare = 0.05;

  // factor: how many times longer than for others the waits for it must be; 0: nobody is reported.
  StragglerWatch(Rank size, int64_t factor) : factor_(static_cast<double>(factor)), waits_(static_cast<size_t>(size)) {}

  // A wait that ended now, and for whom it was (-1: nobody in particular). A report at the end of a window; of one rank again
  // only after twice as many windows as before.
  std::optional<Straggler> add(Rank late, uint64_t waited_ticks, uint64_t now_ticks);

 private:
  struct Waits {
    uint64_t count = 0;
    uint64_t ticks = 0;
  };
  [[nodiscard]] std::optional<Straggler> judge(uint64_t window_ticks) const;

  const double factor_;
  std::vector<Waits> waits_;  // in this window, by rank
  uint64_t count_ = 0;
  uint64_t began_ticks_ = 0;
  Rank reported_ = -1;
  uint64_t windows_to_skip_ = 0;
  uint64_t next_skip_ = 1;
};

}  // namespace gimbal
