// Slurm's way to write many host names: "node[01-03,7],login" is node01, node02, node03, node7 and login.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace gimbal {

inline constexpr size_t kMaxListedHosts = 100'000;  // as many as there can be ranks

// In the list's order. INVALID_ARGUMENT says what is wrong with it.
Result<std::vector<std::string>> expand_host_list(std::string_view text);

}  // namespace gimbal
