// SocketPoller over io_uring: requests that tell when a socket is readable stay posted, so that a look in vain reads memory and
// makes no system call.
//
// Bytes are moved by the same system calls as with epoll. Posted receives and sends were tried instead: with them a ping-pong
// took 10 to 20 % longer and an exchange of 64 MiB up to 30 % (docs/decisions/0005-how-sockets-are-driven.md).
//
// Requests belong to the thread that posted them. When that thread ends they are cancelled, and the next look posts them again.
#pragma once

#include <liburing.h>

#include <vector>

#include "transport/socket_poller.h"

namespace gimbal {

class UringPoller final : public SocketPoller {
 public:
  // UNSUPPORTED where the kernel, or its administrator, gives no io_uring.
  static Result<std::unique_ptr<SocketPoller>> create();
  ~UringPoller() override;

  [[nodiscard]] SocketIo io() const override { return SocketIo::kUring; }
  [[nodiscard]] int fd() const override { return ring_.ring_fd; }
  Status add(SocketUser& user) override;
  void remove(SocketUser& user) override;
  Status look() override;
  bool may_sleep() override;

 private:
  // What a request is for: a place in users_, the user that had it then, and what is watched.
  struct Subject {
    uint32_t serial = 0;
    uint32_t index = 0;
    bool writable = false;

    [[nodiscard]] uint64_t pack() const { return uint64_t{serial} << 32 | uint64_t{index} << 1 | (writable ? 1 : 0); }
    static Subject unpack(uint64_t bits) {
      return {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits) >> 1, (bits & 1) != 0};
    }
  };
  struct Place {
    SocketUser* user = nullptr;
    uint32_t serial = 0;
  };

  UringPoller() = default;
  io_uring_sqe& next_request();
  [[nodiscard]] Subject subject(const SocketUser& user, bool writable) const;
  void watch_readable(SocketUser& user);
  void watch_writable(SocketUser& user) override;
  Status submit();
  void reap();
  void take(const io_uring_cqe& done);

  io_uring ring_ = {};
  std::vector<Place> places_;
  std::vector<uint32_t> free_places_;
  uint32_t serial_ = 0;
  std::vector<SocketUser*> readable_;
};

}  // namespace gimbal
