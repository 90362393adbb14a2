// The one table of environment variables: what exists, what it means, what it accepts. It prints docs/environment.md, it finds
// misspelt GIMBAL_* names, and nothing else in the library calls getenv.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace gimbal {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view values;  // what is accepted
  std::string_view default_value;
  std::string_view meaning;
};

// GIMBAL_* in alphabetical order.
std::span<const EnvironmentVariable> environment_table();

// The variable's text; nothing when it is unset or empty. The name must be in the table, or be a launcher's (RANK, SLURM_…).
std::optional<std::string> read_environment(std::string_view name);

// Typed reads. An unset variable is the default; a bad value is INVALID_ARGUMENT that names the variable and its value.
Result<uint64_t> environment_bytes(std::string_view name, uint64_t default_value, uint64_t minimum, uint64_t maximum);
Result<int64_t> environment_duration_ms(std::string_view name, int64_t default_value);
Result<int64_t> environment_integer(std::string_view name, int64_t default_value, int64_t minimum, int64_t maximum);
Result<bool> environment_bool(std::string_view name, bool default_value);

// One sentence per GIMBAL_* variable that is set but not in the table, with the nearest known name.
std::vector<std::string> unknown_environment_variables();

// docs/environment.md, from the table.
std::string environment_document();

}  // namespace gimbal
