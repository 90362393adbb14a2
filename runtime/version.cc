#include "runtime/version.h"

#include "gimbal/gimbal.h"

namespace gimbal {

uint32_t library_version() { return (GIMBAL_VERSION_MAJOR << 16) | (GIMBAL_VERSION_MINOR << 8) | GIMBAL_VERSION_PATCH; }

std::string version_text(uint32_t version) {
  return std::to_string(version >> 16) + "." + std::to_string((version >> 8) & 0xff) + "." + std::to_string(version & 0xff);
}

}  // namespace gimbal
