// SocketPoller over io_uring: a receive is always under way on every socket, and sends to many peers are one system call.
//
// A look that finds nothing reads memory only. Small sends wait for the next look, which submits them together; large ones are
// submitted at once, because the caller may compute for long before it looks again.
//
// Requests belong to the thread that submitted them. When that thread ends they are cancelled, and the next look submits them
// again.
#pragma once

#include <liburing.h>
#include <sys/socket.h>

#include <deque>
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
  void send(SocketUser& user) override;
  Status look() override;
  bool may_sleep() override;

 private:
  enum class Operation : uint8_t { kReceive = 0, kSend = 1, kCancel = 2 };
  // What the kernel reads while a request is under way.
  struct Entry {
    SocketUser* user = nullptr;
    Pieces received_into = {};
    Pieces sent_from = {};
    msghdr receive_header = {};
    msghdr send_header = {};
  };

  UringPoller() = default;
  static uint64_t request_id(size_t index, Operation operation) { return index << 2 | static_cast<uint64_t>(operation); }
  io_uring_sqe& next_request();
  void receive(SocketUser& user);
  Status submit();
  void complete(const io_uring_cqe& done);
  void complete_request(SocketUser& user, Operation operation, int result);
  // Returns how many requests had ended.
  size_t reap();

  io_uring ring_ = {};
  std::deque<Entry> entries_;  // by index; the places of removed users are used again
  std::vector<size_t> free_;
};

}  // namespace gimbal
