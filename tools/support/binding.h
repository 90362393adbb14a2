// Which CPUs each rank of this machine may use: nothing changed, one core each, or one NUMA node each. Only CPUs that this
// process itself is allowed are ever given.
#pragma once

#include <sched.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace gimbal {

enum class Binding : uint8_t { kNone, kCore, kNuma };

Result<Binding> parse_binding(std::string_view name);  // none, core, numa
Result<Binding> binding_from_environment();            // GIMBAL_BIND

using CpuList = std::vector<size_t>;

// The kernel's list format, "0-3,8"; what is not such a list has no CPUs.
CpuList parse_cpu_list(std::string_view text);
std::string format_cpu_list(const CpuList& cpus);

// The CPUs of this process's affinity mask.
CpuList allowed_cpus();
cpu_set_t to_cpu_set(const CpuList& cpus);

// `allowed`, split by core or by NUMA node, in the order of their first CPUs. sysfs: "/sys", or a copy of it for tests. A CPU
// of which sysfs says nothing is a core by itself; without NUMA nodes all CPUs are one node.
std::vector<CpuList> split_by_core(const CpuList& allowed, const std::string& sysfs);
std::vector<CpuList> split_by_numa_node(const CpuList& allowed, const std::string& sysfs);

struct BindingPlan {
  std::vector<CpuList> cpus;  // of each rank; empty when nothing is bound
  std::string notice;         // one sentence when ranks must share cores, else empty
};

// Cores are dealt out one by one and from the first again when there are too few; NUMA nodes get consecutive ranks.
BindingPlan plan_binding(Binding binding, Rank ranks, const CpuList& allowed, const std::string& sysfs);

}  // namespace gimbal
