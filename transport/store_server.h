// The thread in rank 0 that serves a StoreTable to the job's other ranks over one listening socket.
//
// Strangers are kept away by the listener (transport/keyed_listener.h). A client's get is answered when its key appears (nobody
// polls). The thread ends with the object, without waiting for clients.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "transport/job_key.h"
#include "transport/keyed_listener.h"
#include "transport/socket.h"
#include "transport/store_connection.h"
#include "transport/store_table.h"

namespace gimbal {

class StoreServer {
 public:
  static Result<std::unique_ptr<StoreServer>> start(std::vector<FileDescriptor> listeners, const JobKey& key);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // For rank 0 itself, which needs no connection.
  StoreTable& table() { return table_; }

 private:
  StoreServer(std::unique_ptr<KeyedListener> listener, FileDescriptor epoll, FileDescriptor wake, const JobKey& key);
  void serve();
  void accept_all();
  void step(int fd, uint32_t events);
  void answer_waiters();
  void watch(StoreConnection& connection);
  void drop(int fd);

  const JobKey key_;
  StoreTable table_;
  std::unique_ptr<KeyedListener> listener_;
  FileDescriptor epoll_;
  FileDescriptor wake_;  // eventfd: something was set, or the end
  std::atomic<bool> stopping_{false};
  std::unordered_map<int, std::unique_ptr<StoreConnection>> connections_;  // the thread's own
  std::thread thread_;
};

}  // namespace gimbal
