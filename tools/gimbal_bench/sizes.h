// The sizes of a table, one after the other.
#pragma once

#include <cstddef>
#include <optional>

#include "tools/gimbal_bench/options.h"

namespace gimbal::bench {

// The size after `bytes`; nothing when that was the last. Always larger than `bytes`.
std::optional<size_t> next_size(const Options& options, size_t bytes);

// Bytes of memory that the job's buffers take on this machine with `local_ranks` ranks, against what the machine and this
// process's cgroup have left. The error names both.
Status check_memory(const Options& options, Rank local_ranks);

}  // namespace gimbal::bench
