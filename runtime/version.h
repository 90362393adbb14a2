// The library's version as one number (major << 16 | minor << 8 | patch) that ranks compare when they meet.
#pragma once

#include <cstdint>
#include <string>

namespace gimbal {

uint32_t library_version();
std::string version_text(uint32_t version);

}  // namespace gimbal
