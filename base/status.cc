#include "base/status.h"

#include <cstring>

namespace gimbal {

const char* code_name(int code) {
  // A code is a byte: what is left of a larger value must not pass for one.
  if (code != static_cast<uint8_t>(code)) return "GIMBAL_UNKNOWN";
  switch (static_cast<Code>(code)) {
    case Code::kOk:
      return "GIMBAL_OK";
    case Code::kInvalidArgument:
      return "GIMBAL_INVALID_ARGUMENT";
    case Code::kInvalidUsage:
      return "GIMBAL_INVALID_USAGE";
    case Code::kUnsupported:
      return "GIMBAL_UNSUPPORTED";
    case Code::kNoMemory:
      return "GIMBAL_NO_MEMORY";
    case Code::kSystem:
      return "GIMBAL_SYSTEM";
    case Code::kDevice:
      return "GIMBAL_DEVICE";
    case Code::kRemote:
      return "GIMBAL_REMOTE";
    case Code::kTimeout:
      return "GIMBAL_TIMEOUT";
    case Code::kMismatch:
      return "GIMBAL_MISMATCH";
    case Code::kAborted:
      return "GIMBAL_ABORTED";
    case Code::kInternal:
      return "GIMBAL_INTERNAL";
  }
  return "GIMBAL_UNKNOWN";
}

const std::string& Status::message() const {
  static const std::string kEmpty;
  return state_ ? state_->message : kEmpty;
}

Status system_error(const std::string& what, int error_number) {
  const Code code = error_number == ENOMEM ? Code::kNoMemory : Code::kSystem;
  return {code, what + ": " + std::strerror(error_number)};
}

}  // namespace gimbal
