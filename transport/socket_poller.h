// Drives many stream sockets from one place: one look finds out which of them can move, and moves them.
//
// A SocketUser says where received bytes go and which bytes are to be sent; a poller finds out when, and does the system calls.
// Two do: one over epoll, one over io_uring. Nothing here waits: once may_sleep() has said so, fd() becomes readable when a
// look would find something, so that a PollSleeper can wait for it.
//
// In a forked child a poller and its users do nothing, because the kernel's side of them is the parent's.
//
// Thread safety: one thread at a time uses a poller and its users.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace gimbal {

// The memory of one system call.
struct Pieces {
  std::array<iovec, 3> at = {};
  size_t count = 0;

  void add(const void* memory, size_t bytes) {
    if (bytes > 0) at[count++] = {const_cast<void*>(memory), bytes};
  }
  [[nodiscard]] size_t bytes() const {
    size_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum += at[i].iov_len;
    return sum;
  }
};

class SocketUser {
 public:
  explicit SocketUser(int socket) : socket_(socket) {}
  SocketUser(const SocketUser&) = delete;
  SocketUser& operator=(const SocketUser&) = delete;
  virtual ~SocketUser() = default;

  [[nodiscard]] int socket() const { return socket_; }

  // Where the next received bytes go, in order.
  virtual Pieces space() = 0;
  virtual void received(size_t bytes) = 0;
  // The bytes to be sent next, in order; none when there are none.
  virtual Pieces unsent() = 0;
  virtual void sent(size_t bytes) = 0;
  // The stream is of no more use: the peer closed it (0), or the error. The last call.
  virtual void closed(int error_number) = 0;

  // The poller's notes on this user.
  struct State {
    bool closed = false;
    int send_error = 0;
    bool blocked = false;   // what it sends waits until the socket is writable
    bool watched = false;   // for being writable
    bool readable = false;  // io_uring: as far as is known
    size_t index = 0;       // io_uring
  };
  State poller_state;

 private:
  const int socket_;
};

enum class SocketIo : uint8_t { kAuto, kUring, kEpoll };

class SocketPoller {
 public:
  // kAuto: io_uring where the kernel gives one, else epoll. kUring fails with UNSUPPORTED and the reason where it does not.
  static Result<std::unique_ptr<SocketPoller>> create(SocketIo io);

  SocketPoller();
  SocketPoller(const SocketPoller&) = delete;
  SocketPoller& operator=(const SocketPoller&) = delete;
  virtual ~SocketPoller() = default;

  [[nodiscard]] virtual SocketIo io() const = 0;
  [[nodiscard]] virtual int fd() const = 0;

  virtual Status add(SocketUser& user) = 0;
  virtual void remove(SocketUser& user) = 0;

  // Moves what can be moved now.
  virtual Status look() = 0;
  // Whether nothing is known that a look could move.
  virtual bool may_sleep() = 0;

  // Sends what the user has unsent, until the socket takes no more; the rest goes with later looks.
  void send(SocketUser& user);

  // Of several endpoints that are asked in turn, one looks for all: whoever finds that nobody has looked since its own last
  // turn.
  Status look_in_turn(uint64_t& seen) {
    Status status;
    if (seen == looks_) {
      ++looks_;
      status = look();
    }
    seen = looks_;
    return status;
  }

  [[nodiscard]] bool in_forked_child() const;

 protected:
  // Watches for the moment when a blocked user's socket is writable.
  virtual void watch_writable(SocketUser& user) = 0;
  // One system call; whether there may be more to receive. A receiver works on what one call brought while it is in the cache.
  bool receive(SocketUser& user);

 private:
  void close(SocketUser& user, int error_number);

  const pid_t process_;
  uint64_t looks_ = 0;
};

}  // namespace gimbal
