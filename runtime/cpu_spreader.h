// Moves a rank off the CPU that it shares with another rank while CPUs that they may use stand empty.
//
// Ranks that yield and sleep give the kernel no reason to part them: two ranks of one job were seen on one CPU for minutes
// (67-475 us instead of 0.2 us for 8 bytes), where libraries that only spin are pulled apart by the load balancer. The move is
// not a binding: the thread's affinity is narrowed to the free CPU and set back at once, within what it may use.
//
// Thread safety: one thread. Words in RankControl are hints; a wrong one costs a needless move, at most one in kPeriodNs.
#pragma once

#include <sched.h>

#include <cstdint>

#include "runtime/node_memory.h"

namespace gimbal {

class CpuSpreader {
 public:
  // rank: within the node.
  explicit CpuSpreader(Rank rank) : rank_(rank) {}

  // Call when a wait has outlasted spinning. Tells the node which CPU this rank is on, and moves it when a lower rank is there
  // too.
  void step_aside(const NodeMemory& memory);

  // A CPU of `allowed` on which none of the node's ranks was last seen; -1 when there is none.
  static int free_cpu(const NodeMemory& memory, const cpu_set_t& allowed);

 private:
  static constexpr int64_t kPeriodNs = 50'000'000;

  Rank rank_;
  int64_t next_move_ns_ = 0;
};

}  // namespace gimbal
