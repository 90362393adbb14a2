#include "transport/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <limits>

#include "base/process_registry.h"

namespace gimbal {
namespace {

Status segment_error(const std::string& what, size_t bytes, int error_number) {
  const bool memory = error_number == ENOMEM || error_number == ENOSPC || error_number == EFBIG;
  const Status error = system_error(what + " of " + std::to_string(bytes) + " bytes", error_number);
  return memory ? Status(Code::kNoMemory, error.message()) : error;
}

bool fits_a_file(size_t bytes) { return bytes > 0 && bytes <= static_cast<size_t>(std::numeric_limits<off_t>::max()); }

Status size_error(size_t bytes) {
  return {Code::kNoMemory,
          "shared segment of " + std::to_string(bytes) + " bytes: a segment has at least one byte and fits in memory"};
}

}  // namespace

Result<std::shared_ptr<SharedSegment>> SharedSegment::create(const std::string& name, size_t bytes) {
  if (!fits_a_file(bytes)) return size_error(bytes);
  FileDescriptor fd(memfd_create(("gimbal-" + name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return segment_error("memfd_create", bytes, errno);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return segment_error("ftruncate of a shared segment", bytes, errno);
  // Nobody can shorten the file under a mapping any more; mappers insist on it.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return segment_error("sealing a shared segment", bytes, errno);
  return share_mapping(std::move(fd), bytes);
}

Result<std::shared_ptr<SharedSegment>> SharedSegment::map(FileDescriptor fd, size_t bytes) {
  if (!fits_a_file(bytes)) return size_error(bytes);
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Status(Code::kInternal, "descriptor for a shared segment of " + std::to_string(bytes) +
                                       " bytes is not a memfd sealed against shrinking");
  }
  struct stat status = {};
  if (fstat(fd.get(), &status) != 0) return segment_error("fstat of a shared segment", bytes, errno);
  if (static_cast<size_t>(status.st_size) < bytes) {
    return Status(Code::kInternal,
                  "shared segment has " + std::to_string(status.st_size) + " bytes, " + std::to_string(bytes) + " wanted");
  }
  return share_mapping(std::move(fd), bytes);
}

Result<std::shared_ptr<SharedSegment>> SharedSegment::share_mapping(FileDescriptor fd, size_t bytes) {
  struct stat status = {};
  if (fstat(fd.get(), &status) != 0) return segment_error("fstat of a shared segment", bytes, errno);
  const std::string key = "segment/" + std::to_string(status.st_dev) + "/" + std::to_string(status.st_ino);
  const auto map_it = [&]() -> Result<std::shared_ptr<SharedSegment>> {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) return segment_error("mmap of a shared segment", bytes, errno);
    return std::shared_ptr<SharedSegment>(new SharedSegment(std::move(fd), static_cast<std::byte*>(data), bytes));
  };
  ASSIGN_OR_RETURN(std::shared_ptr<SharedSegment> segment,
                   ProcessRegistry::instance().find_or_create<SharedSegment>(key, map_it));
  if (segment->bytes() < bytes) {
    return Status(Code::kInternal, "shared segment is mapped here with " + std::to_string(segment->bytes()) + " bytes, " +
                                       std::to_string(bytes) + " wanted");
  }
  return segment;
}

size_t SharedSegment::resident_bytes() const {
  constexpr size_t kStatBlockBytes = 512;  // stat(2)
  struct stat file = {};
  return fstat(fd_.get(), &file) == 0 ? static_cast<size_t>(file.st_blocks) * kStatBlockBytes : 0;
}

SharedSegment::~SharedSegment() { munmap(data_, bytes_); }

}  // namespace gimbal
