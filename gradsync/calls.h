// Calls of the public API, as statuses.
#pragma once

#include "base/status.h"
#include "gimbal/gimbal.h"

namespace gimbal::gradsync {

inline Status from_c(gimbal_status_t status) {
  if (status == GIMBAL_OK) return {};
  return {static_cast<Code>(status), gimbal_last_error()};
}

// By the worker's thread, on a communicator of the program's: a started operation ends when the program destroys that one,
// where a blocking one would be a second thread on it.
template <typename Start>
Status complete(Start&& start) {
  gimbal_request_t request = nullptr;
  RETURN_IF_ERROR(from_c(start(&request)));
  return from_c(gimbal_wait(&request));
}

}  // namespace gimbal::gradsync
