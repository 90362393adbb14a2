// Names of statuses and versions, sizes of types: entry points that need no communicator.
#include "base/status.h"
#include "base/types.h"
#include "runtime/api/handles.h"
#include "runtime/version.h"

namespace api = gimbal::api;

const char* gimbal_status_name(gimbal_status_t status) { return gimbal::code_name(status); }

const char* gimbal_last_error(void) { return gimbal::last_error(); }

gimbal_status_t gimbal_version(int* major, int* minor, int* patch) {
  return gimbal::enter([&]() -> gimbal::Status {
    if (major != nullptr) *major = GIMBAL_VERSION_MAJOR;
    if (minor != nullptr) *minor = GIMBAL_VERSION_MINOR;
    if (patch != nullptr) *patch = GIMBAL_VERSION_PATCH;
    return {};
  });
}

const char* gimbal_version_string(void) {
  static const std::string* const kText = new std::string(gimbal::version_text(gimbal::library_version()));
  return kText->c_str();
}

size_t gimbal_dtype_size(gimbal_dtype_t dtype) {
  const int value = dtype;
  if (value < 0 || value >= gimbal::kPublicDTypeCount) return 0;
  return gimbal::dtype_size(static_cast<gimbal::DType>(value));
}
