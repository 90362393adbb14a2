// A piece of memory that several processes map: a memfd, passed over a Unix socket; nothing in /dev/shm, nothing on disk.
//
// Ranks that are threads of one process get the *same* mapping (through the process registry, by device and inode), so that
// ThreadSanitizer sees their races and memory is not mapped twice. Fresh segments are zero and take memory page by page as they
// are touched.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "base/status.h"

namespace gimbal {

class SharedSegment {
 public:
  // name is only for /proc/<pid>/maps. NO_MEMORY or SYSTEM with the bytes wanted.
  static Result<std::shared_ptr<SharedSegment>> create(const std::string& name, size_t bytes);
  // Maps what a peer sent. The size is checked against the file's: a shorter one would be a SIGBUS later.
  static Result<std::shared_ptr<SharedSegment>> map(FileDescriptor fd, size_t bytes);

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  // Of the pages that have been touched by any process.
  [[nodiscard]] size_t resident_bytes() const;
  // For sending to peers.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  SharedSegment(FileDescriptor fd, std::byte* data, size_t bytes) : fd_(std::move(fd)), data_(data), bytes_(bytes) {}
  static Result<std::shared_ptr<SharedSegment>> share_mapping(FileDescriptor fd, size_t bytes);
  FileDescriptor fd_;
  std::byte* data_;
  size_t bytes_;
};

}  // namespace gimbal
