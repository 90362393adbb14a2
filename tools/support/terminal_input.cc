#include "tools/support/terminal_input.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace gimbal {

Status TerminalInput::open() {
  if (isatty(STDIN_FILENO) == 0) return {};
  int ends[2];
  // A socket and not a pipe: writing to a rank that has gone must not raise SIGPIPE here.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_error("open a socket for the terminal's input", errno);
  }
  rank_end_ = FileDescriptor(ends[0]);
  launcher_end_ = FileDescriptor(ends[1]);
  return {};
}

pollfd TerminalInput::awaited() const {
  if (!launcher_end_.valid()) return {-1, 0, 0};
  if (!pending_.empty()) return {launcher_end_.get(), POLLOUT, 0};
  // A launcher in the background must not read either.
  return {tcgetpgrp(STDIN_FILENO) == getpgrp() ? STDIN_FILENO : -1, POLLIN, 0};
}

void TerminalInput::pump() {
  if (pending_.empty()) {
    std::array<char, 4096> buffer;
    const ssize_t bytes = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (bytes > 0) {
      pending_.assign(buffer.data(), static_cast<size_t>(bytes));
    } else if (bytes == 0 || errno != EINTR) {
      launcher_end_.reset();  // the rank sees the end of its input
    }
    return;
  }
  const ssize_t written = send(launcher_end_.get(), pending_.data(), pending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written > 0) {
    pending_.erase(0, static_cast<size_t>(written));
  } else if (errno != EINTR && errno != EAGAIN) {
    pending_.clear();
    launcher_end_.reset();  // rank 0 reads no more
  }
}

}  // namespace gimbal
