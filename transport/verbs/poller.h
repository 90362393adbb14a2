// Drives the queue pairs of one thread: its rails, the memory of its endpoints, and the completions of all of them.
//
// Nothing here waits: once may_sleep() has said so, fd() becomes readable when a look would find something, so that a
// PollSleeper can wait for it. The completion queues are asked for an event only then: while a rank spins, a look reads memory
// only.
//
// Thread safety: one thread at a time uses a poller and its endpoints.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/rail.h"

namespace gimbal {

class VerbsPoller {
 public:
  // memory_bytes: that its endpoints will take in all, registered with each rail.
  static Result<std::unique_ptr<VerbsPoller>> create(const std::shared_ptr<const VerbsLibrary>& library,
                                                     std::span<const VerbsPort> ports, size_t memory_bytes);
  VerbsPoller(const VerbsPoller&) = delete;
  VerbsPoller& operator=(const VerbsPoller&) = delete;
  ~VerbsPoller();

  [[nodiscard]] int fd() const { return epoll_.get(); }
  [[nodiscard]] VerbsRail& rail(size_t index) { return *rails_[index]; }

  // Zeroed, on a cache line, for the poller's life. An endpoint takes its part once.
  std::span<std::byte> take_memory(size_t bytes);

  Result<std::unique_ptr<VerbsQueuePair>> make_pair(size_t rail, VerbsPairOwner& owner, VerbsQueuePair::Options options);
  // Before it is destroyed.
  void forget(const VerbsQueuePair& pair);

  // Takes the completions that are there.
  Status look();
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
  // Whether nothing is known that a look could move; the next completion is then told by fd().
  bool may_sleep();

 private:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* memory) const;
  };

  VerbsPoller() = default;
  Status add_rail(const std::shared_ptr<const VerbsLibrary>& library, const VerbsPort& port);
  Status map_memory(size_t bytes);
  // Whether it took any.
  Result<bool> take_completions(VerbsRail& rail);
  void take_events(VerbsRail& rail);

  std::unique_ptr<std::byte, Unmap> memory_;
  size_t memory_taken_ = 0;
  std::vector<std::unique_ptr<VerbsRail>> rails_;
  std::vector<VerbsQueuePair*> pairs_;  // by index; null: destroyed
  FileDescriptor epoll_;
  uint64_t looks_ = 0;
};

}  // namespace gimbal
