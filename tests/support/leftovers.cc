#include "tests/support/leftovers.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <thread>

#include "base/deadline.h"

namespace gimbal::test {
namespace {

namespace fs = std::filesystem;

// A joined thread leaves /proc a moment after its join.
constexpr int64_t kThreadExitMs = 2'000;

// ThreadSanitizer adds a thread of its own to the program with the first one: it is to be there before the first snapshot.
//
// A child that was orphaned by a rank becomes a child of this process and is found by waitpid(). A private /dev/shm needs
// CAP_SYS_ADMIN; without it the shared one is compared, which other programs may change.
void isolate_once() {
  static const bool kDone = [] {
    std::thread([] {}).join();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
      mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, nullptr);
    }
    return true;
  }();
  static_cast<void>(kDone);
}

std::set<std::string> open_descriptors() {
  std::set<std::string> result;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor cannot be read any more when its turn comes
    const fs::path target = fs::read_symlink(entry.path(), gone);
    if (!gone && target != "/proc/" + std::to_string(getpid()) + "/fd") {
      result.insert(entry.path().filename().string() + " -> " + target.string());
    }
  }
  return result;
}

size_t thread_count() {
  const fs::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

std::set<std::string> shared_memory_entries() {
  std::set<std::string> result;
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev/shm", missing)) result.insert(entry.path().string());
  return result;
}

void append_new(const char* what, const std::set<std::string>& before, const std::set<std::string>& after, std::string& text) {
  for (const std::string& entry : after) {
    if (!before.contains(entry)) text.append(what).append(entry).append("\n");
  }
}

}  // namespace

Resources current_resources() { return {open_descriptors(), shared_memory_entries(), thread_count()}; }

std::string leftovers(const Resources& before, const Resources& after) {
  std::string text;
  append_new("descriptor ", before.descriptors, after.descriptors, text);
  append_new("shared memory ", before.shared_memory, after.shared_memory, text);
  if (after.thread_count > before.thread_count) {
    text += std::to_string(after.thread_count - before.thread_count) + " threads\n";
  }
  const pid_t child = waitpid(-1, nullptr, WNOHANG);
  if (child >= 0 || errno != ECHILD) text += "a child process\n";
  return text;
}

void RanksTest::SetUp() {
  isolate_once();
  before_ = current_resources();
}

void RanksTest::TearDown() {
  const Deadline deadline = Deadline::after_ms(kThreadExitMs);
  while (thread_count() > before_.thread_count && !deadline.passed()) sched_yield();
  EXPECT_EQ(leftovers(before_, current_resources()), "");
}

}  // namespace gimbal::test
