// SocketPoller over epoll, for every kernel. Level-triggered: what a look leaves behind keeps fd() readable.
#pragma once

#include "base/file_descriptor.h"
#include "transport/socket_poller.h"

namespace gimbal {

class EpollPoller final : public SocketPoller {
 public:
  static Result<std::unique_ptr<SocketPoller>> create();

  [[nodiscard]] SocketIo io() const override { return SocketIo::kEpoll; }
  [[nodiscard]] int fd() const override { return epoll_.get(); }
  Status add(SocketUser& user) override;
  void remove(SocketUser& user) override;
  Status look() override;
  bool may_sleep() override { return true; }

 private:
  explicit EpollPoller(FileDescriptor epoll) : epoll_(std::move(epoll)) {}
  void watch_writable(SocketUser& user) override { watch(user, true); }
  void watch(SocketUser& user, bool writable);

  const FileDescriptor epoll_;
};

}  // namespace gimbal
