// Drives many stream sockets from one place: one look finds out which of them can move, and moves them.
//
// A SocketUser says where received bytes go and which bytes are to be sent; a poller does the system calls. Two do: epoll, and
// io_uring where the kernel has it. Nothing here waits: once may_sleep() has said so, fd() becomes readable when a look would
// find something, so that a PollSleeper can wait for it.
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

// At most so many pieces of memory per system call.
using Pieces = std::array<iovec, 2>;

class SocketUser {
 public:
  explicit SocketUser(int socket) : socket_(socket) {}
  SocketUser(const SocketUser&) = delete;
  SocketUser& operator=(const SocketUser&) = delete;
  virtual ~SocketUser() = default;

  [[nodiscard]] int socket() const { return socket_; }

  // Where the next received bytes go, in order; returns how many pieces. They stay valid, and are the poller's, until
  // received() or closed().
  virtual size_t space(Pieces& pieces) = 0;
  virtual void received(size_t bytes) = 0;
  // The bytes to be sent next, in order, valid until sent() or closed(); 0 when there are none.
  virtual size_t unsent(Pieces& pieces) = 0;
  virtual void sent(size_t bytes) = 0;
  // The stream is of no more use: the peer closed it (0), or the error. The last call.
  virtual void closed(int error_number) = 0;

  // The poller's notes on this user.
  struct State {
    bool closed = false;
    bool sending = false;    // epoll: waits until the socket is writable; io_uring: a send is under way
    bool watched = false;    // epoll: for being writable
    bool receiving = false;  // io_uring: a receive is under way
    size_t index = 0;        // io_uring
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
  // Afterwards the user's memory is its own again.
  virtual void remove(SocketUser& user) = 0;

  // The user has unsent bytes now. Does nothing while earlier ones of it are under way: sent() is followed by another unsent().
  virtual void send(SocketUser& user) = 0;

  // Moves what can be moved now.
  virtual Status look() = 0;
  // Whether nothing is known that a look could move.
  virtual bool may_sleep() = 0;

  [[nodiscard]] bool in_forked_child() const;

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

 private:
  const pid_t process_;
  uint64_t looks_ = 0;
};

// One system call on one socket.
struct Moved {
  ssize_t bytes = 0;  // -1: not now
  int error_number = 0;
};
Moved send_pieces(int socket, Pieces& pieces, size_t count);
Moved receive_pieces(int socket, Pieces& pieces, size_t count);

}  // namespace gimbal
