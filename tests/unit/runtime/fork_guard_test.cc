#include "runtime/fork_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gimbal::test {
namespace {

TEST(ForkGuard, TellsTheChildFromTheParent) {
  const ForkGuard guard;
  EXPECT_FALSE(guard.in_child());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(guard.in_child() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child did not know that it is one";
  EXPECT_FALSE(guard.in_child());
}

TEST(ForkGuard, MadeInTheChildBelongsToTheChild) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(ForkGuard().in_child() ? 1 : 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gimbal::test
