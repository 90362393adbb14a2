#include "runtime/cpu_spreader.h"

#include "base/deadline.h"

namespace gimbal {

void CpuSpreader::step_aside(const NodeMemory& memory) {
  const int cpu = sched_getcpu();
  if (cpu < 0) return;
  const auto mine = static_cast<uint32_t>(cpu) + 1;
  memory.control(rank_).cpu.store(mine, std::memory_order_relaxed);
  bool shared = false;
  for (Rank lower = 0; lower < rank_; ++lower) {
    shared = shared || memory.control(lower).cpu.load(std::memory_order_relaxed) == mine;
  }
  if (!shared) return;
  const int64_t now = monotonic_ns();
  if (now < next_move_ns_) return;
  next_move_ns_ = now + kPeriodNs;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  const int target = free_cpu(memory, allowed);
  if (target < 0) return;
  cpu_set_t narrow;
  CPU_ZERO(&narrow);
  CPU_SET(target, &narrow);
  if (sched_setaffinity(0, sizeof(narrow), &narrow) != 0) return;
  sched_setaffinity(0, sizeof(allowed), &allowed);
  memory.control(rank_).cpu.store(static_cast<uint32_t>(target) + 1, std::memory_order_relaxed);
}

int CpuSpreader::free_cpu(const NodeMemory& memory, const cpu_set_t& allowed) {
  cpu_set_t free = allowed;
  for (Rank rank = 0; rank < memory.layout().nranks; ++rank) {
    const uint32_t seen = memory.control(rank).cpu.load(std::memory_order_relaxed);
    if (seen > 0 && seen <= CPU_SETSIZE) CPU_CLR(seen - 1, &free);
  }
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &free)) return cpu;
  }
  return -1;
}

}  // namespace gimbal
