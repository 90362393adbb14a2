// The fixture of tests that make communicators: nothing of them may remain.
//
// After each test the process has the descriptors and threads that it had before, no child (orphans of children included), and
// /dev/shm has no new entry. Where the kernel lets it, the test sees a /dev/shm of its own, so that other programs' entries
// cannot be taken for Gimbal's.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gimbal::test {

struct Resources {
  std::set<std::string> descriptors;  // "7 -> socket:[1234]"
  std::set<std::string> shared_memory;
  size_t thread_count;
};

Resources current_resources();

// What is in `after` and not in `before`, and every child of this process, one a line; empty when nothing is left.
std::string leftovers(const Resources& before, const Resources& after);

class RanksTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

 private:
  Resources before_;
};

// Cases about processes: killed, forked, short of something, in namespaces of their own. They say nothing that a sanitizer
// could see better, and their memory and times are not a sanitizer's.
class ProcessRanksTest : public RanksTest {
 protected:
  void SetUp() override {
    RanksTest::SetUp();
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "processes are tested without sanitizers";
#endif
  }
};

}  // namespace gimbal::test
