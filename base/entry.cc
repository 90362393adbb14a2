#include "base/entry.h"

namespace gimbal {
namespace {

std::string& last_error_text() {
  thread_local std::string text;
  return text;
}

}  // namespace

void set_last_error(const Status& status) { last_error_text() = status.message(); }
const char* last_error() { return last_error_text().c_str(); }

}  // namespace gimbal
