// Calls of the public API, as statuses.
#pragma once

#include "base/status.h"
#include "gimbal/gimbal.h"

namespace gimbal::gradsync {

inline Status from_c(gimbal_status_t status) {
  if (status == GIMBAL_OK) return {};
  return {static_cast<Code>(status), gimbal_last_error()};
}

}  // namespace gimbal::gradsync
