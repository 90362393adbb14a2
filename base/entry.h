// The guard of every C entry point: no exception leaves it, and an error becomes this thread's last.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "base/status.h"
#include "gimbal/gimbal.h"

namespace gimbal {

void set_last_error(const Status& status);
// What gimbal_last_error() returns.
const char* last_error();

template <typename Body>
gimbal_status_t enter(Body&& body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) [[likely]]
      return GIMBAL_OK;
    set_last_error(status);
    return static_cast<gimbal_status_t>(status.code());
  } catch (const std::bad_alloc&) {
    set_last_error(Status(Code::kNoMemory, "out of memory"));
    return GIMBAL_NO_MEMORY;
  } catch (const std::exception& error) {
    set_last_error(Status(Code::kInternal, std::string("unexpected exception: ") + error.what()));
    return GIMBAL_INTERNAL;
  }
}

}  // namespace gimbal
