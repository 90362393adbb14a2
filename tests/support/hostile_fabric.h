// The wire between the processes of a test that use tests/support/hostile_verbs: set before they start, gone with the object.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "base/file_descriptor.h"
#include "tests/support/scoped_environment.h"

namespace gimbal::test {

class HostileFabric {
 public:
  HostileFabric() : file_(memfd_create("hostile_fabric", MFD_CLOEXEC)), path_("HOSTILE_VERBS_FABRIC", path_of(file_)) {
    if (!file_.valid()) throw std::runtime_error("memfd_create for a fabric of hostile_verbs");
  }

 private:
  // Not of "self": it is read by other processes.
  static std::string path_of(const FileDescriptor& file) {
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file.get());
  }

  FileDescriptor file_;
  ScopedEnvironment path_;
};

}  // namespace gimbal::test
