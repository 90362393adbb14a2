// What CPU time this process may use: its affinity mask and the CPU quota of its cgroup.
#pragma once

#include <sched.h>

#include <string_view>

namespace gimbal {

struct CpuAllowance {
  cpu_set_t affinity;
  double quota_cpus;  // CPUs' worth of time per period; infinity without a quota
};

CpuAllowance read_cpu_allowance();

// "max 100000" or "150000 100000" (cgroup v2 cpu.max) as CPUs; infinity for "max" or what cannot be read.
double parse_cpu_quota(std::string_view text);

}  // namespace gimbal
