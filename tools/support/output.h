// What a command writes: whole files (drawings, reports, time lines) and its standard output.
#pragma once

#include <string>

#include "base/status.h"

namespace gimbal {

// SYSTEM, with the path and the system's reason, when not everything could be written.
Status write_file(const std::string& path, const std::string& text);
// To standard output, at once. SYSTEM when it cannot be written.
Status print(const std::string& text);

}  // namespace gimbal
