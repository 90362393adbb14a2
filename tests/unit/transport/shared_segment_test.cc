#include "transport/shared_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gimbal {
namespace {

using ::testing::HasSubstr;

TEST(SharedSegment, BeginsAsZeros) {
  const auto segment = SharedSegment::create("zeros", 100'000).value();
  for (size_t i = 0; i < segment->bytes(); ++i) ASSERT_EQ(segment->data()[i], std::byte{0});
}

TEST(SharedSegment, IsClosedOnExecAndCannotShrink) {
  const auto segment = SharedSegment::create("sealed", 4096).value();
  EXPECT_NE(fcntl(segment->fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(ftruncate(segment->fd(), 1), 0);
}

TEST(SharedSegment, IsMappedOnceInAProcess) {
  const auto segment = SharedSegment::create("once", 4096).value();
  const auto mapped = SharedSegment::map(FileDescriptor(dup(segment->fd())), 4096);
  ASSERT_TRUE(mapped.ok()) << mapped.status().message();
  EXPECT_EQ((*mapped)->data(), segment->data());
}

TEST(SharedSegment, RefusesAFileThatIsShorterThanAnnounced) {
  const auto segment = SharedSegment::create("short", 4096).value();
  const Status status = SharedSegment::map(FileDescriptor(dup(segment->fd())), 8192).status();
  EXPECT_EQ(status.message(), "shared segment has 4096 bytes, 8192 wanted");
}

TEST(SharedSegment, RefusesAFileThatCouldShrinkLater) {
  FileDescriptor fd(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  EXPECT_THAT(SharedSegment::map(std::move(fd), 4096).status().message(), HasSubstr("not a memfd sealed against shrinking"));
}

TEST(SharedSegment, NamesTheBytesThatCouldNotBeHad) {
  const Status too_large = SharedSegment::create("large", size_t{1} << 62).status();
  EXPECT_EQ(too_large.code(), Code::kNoMemory);
  EXPECT_THAT(too_large.message(), HasSubstr("4611686018427387904 bytes"));
  EXPECT_EQ(SharedSegment::create("empty", 0).status().code(), Code::kNoMemory);
}

}  // namespace
}  // namespace gimbal
