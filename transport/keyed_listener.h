// Listening sockets behind the keyed handshake: whoever comes in has proven that it has the key, and has said what it is for.
//
// One poll-able descriptor stands for all of it, so that an owner adds it to the loop that it has anyway. Strangers are
// expected: one that says nothing, or says it slowly, costs a descriptor and holds up nobody; at most kMaxStrangers are kept,
// and the oldest goes when there are too many, or when descriptors run out: a rank says its hello at once.
//
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "transport/hello.h"

namespace gimbal {

struct AcceptedConnection {
  Claim claim;
  FileDescriptor socket;
};

class KeyedListener {
 public:
  // The sockets listen already.
  static Result<std::unique_ptr<KeyedListener>> create(std::vector<FileDescriptor> listeners);

  // Readable when progress() has something to do.
  [[nodiscard]] int fd() const { return epoll_.get(); }

  // Accepts whoever waits and moves every handshake on as far as it goes, without waiting. A client that proves itself is
  // asked for by `expects`, and is told so when it is not expected.
  std::vector<AcceptedConnection> progress(const JobKey& key, const std::function<bool(const Claim&)>& expects);

  // Descriptors ran out while nobody was left to drop: new connections wait in the kernel until resume().
  [[nodiscard]] bool paused() const { return paused_; }
  void resume();

 private:
  static constexpr size_t kMaxStrangers = 1024;

  KeyedListener(std::vector<FileDescriptor> listeners, FileDescriptor epoll);
  void accept_all(const FileDescriptor& listener);
  void watch_listeners(uint32_t events);

  std::vector<FileDescriptor> listeners_;
  FileDescriptor epoll_;
  std::map<uint64_t, HelloServer> strangers_;  // by the order of their coming
  uint64_t accepted_ = 0;
  bool paused_ = false;
};

}  // namespace gimbal
