#include "tools/support/line_prefixer.h"

#include <poll.h>

#include <array>
#include <cerrno>

namespace gimbal {
namespace {

// A line longer than this is cut, so that a rank that prints no newline does not grow this process.
constexpr size_t kLongestLineBytes = 1 << 20;

}  // namespace

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable = {fd, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

void LinePrefixer::pump() {
  std::array<char, 65536> buffer;
  const ssize_t bytes = read(from_.get(), buffer.data(), buffer.size());
  if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (bytes <= 0) {
    pass_on_rest();
    from_.reset();
    return;
  }
  pending_.append(buffer.data(), static_cast<size_t>(bytes));
  pass_on_lines();
  if (pending_.size() > kLongestLineBytes) pass_on_rest();
}

void LinePrefixer::finish() {
  pollfd readable = {from_.get(), POLLIN, 0};
  while (from_.valid() && poll(&readable, 1, 0) > 0) pump();
  pass_on_rest();
  from_.reset();
}

void LinePrefixer::pass_on_lines() {
  std::string text;
  size_t begin = 0;
  for (size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n', begin)) {
    text.append(prefix_).append(pending_, begin, end + 1 - begin);
    begin = end + 1;
  }
  pending_.erase(0, begin);
  write_all(to_, text);
}

void LinePrefixer::pass_on_rest() {
  if (pending_.empty()) return;
  write_all(to_, prefix_ + pending_ + "\n");
  pending_.clear();
}

}  // namespace gimbal
