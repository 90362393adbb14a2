#include "base/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace gimbal {
namespace {

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(FileDescriptor, ClosesWhatItOwns) {
  const int fd = open_null();
  {
    const FileDescriptor owner(fd);
    EXPECT_TRUE(owner.valid());
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(FileDescriptor, AMoveHandsOverAndClosesWhatWasThere) {
  const int first = open_null();
  const int second = open_null();
  FileDescriptor source(first);
  FileDescriptor target(second);
  target = std::move(source);
  EXPECT_EQ(target.get(), first);
  EXPECT_TRUE(is_open(first));
  EXPECT_FALSE(is_open(second));
}

TEST(FileDescriptor, OwnsNothingAfterReset) {
  FileDescriptor owner(open_null());
  owner.reset();
  EXPECT_FALSE(owner.valid());
  EXPECT_EQ(owner.get(), -1);
}

}  // namespace
}  // namespace gimbal
