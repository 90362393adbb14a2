// What CPU time this process may use: its affinity mask and the CPU quota of its cgroup.
#pragma once

#include <sched.h>

#include <cstddef>
#include <string_view>

namespace gimbal {

struct CpuAllowance {
  cpu_set_t affinity;
  double quota_cpus;  // CPUs' worth of time per period; infinity without a quota
};

CpuAllowance read_cpu_allowance();

// "max 100000" or "150000 100000" (cgroup v2 cpu.max) as CPUs; infinity for "max" or what cannot be read.
double parse_cpu_quota(std::string_view text);

// Bytes of the last-level cache that this process's CPUs share, as sysfs tells; 8 MiB where it does not. The C library's answer
// is not asked: in a virtual machine it was seen to name the whole host's cache (384 MiB where a CPU has 32).
size_t last_level_cache_bytes();

}  // namespace gimbal
