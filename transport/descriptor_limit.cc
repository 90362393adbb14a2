#include "transport/descriptor_limit.h"

#include <dirent.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>

namespace gimbal {
namespace {

size_t count_open_descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  size_t count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;  // ".", ".." and the folder's own are a little too much
}

}  // namespace

Status reserve_descriptors(size_t wanted) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return system_error("getrlimit(RLIMIT_NOFILE)", errno);
  const size_t needed = count_open_descriptors() + wanted;
  if (needed <= limit.rlim_cur) return {};
  if (needed > limit.rlim_max) {
    return {Code::kSystem, "RLIMIT_NOFILE is " + std::to_string(limit.rlim_max) +
                               " and cannot be raised: " + std::to_string(needed) + " descriptors are wanted (" +
                               std::to_string(wanted) + " for this communicator)"};
  }
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return system_error("setrlimit(RLIMIT_NOFILE)", errno);
  return {};
}

}  // namespace gimbal
