// What is recorded between gimbal_group_start and gimbal_group_end, and its launch.
//
// Small all-reduces of equal type and operation on one communicator become one: packed, reduced, unpacked.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "runtime/call.h"
#include "runtime/communicator.h"
#include "runtime/cuda/device_operations.h"
#include "runtime/started_operations.h"

namespace gimbal {

class Group {
 public:
  // Called at the launch with the request of a _start that was recorded.
  using Started = std::function<Status(std::shared_ptr<Request>)>;

  // A blocking call; with `started`, a _start.
  void add(std::shared_ptr<Communicator> communicator, const Call& call, Started started);

  // Launches everything, waits for the blocking calls on host memory and returns the first error. The group is empty
  // afterwards, and keeps its memory for the next one: pages that are given back and taken again cost more than a small
  // exchange.
  Status launch();

 private:
  struct Entry {
    std::shared_ptr<Communicator> communicator;
    OwnedCall call;
    Started started;
  };

  struct Awaited {
    Communicator* communicator;
    std::shared_ptr<Request> request;
  };

  struct OnDevice {
    Entry* entry;
    DeviceOperations* operations;
    std::unique_ptr<EnqueuedCall> call;
  };

  Status launch_entries();
  void empty();
  // Enqueues the calls on device memory, in turns, and takes them out of the entries.
  Status enqueue_on_devices();
  static Status begin_on_device(Entry& entry, std::vector<OnDevice>& calls);
  [[nodiscard]] bool runs_on_this_thread() const;
  Status run_here();
  Status run_fused(size_t begin, size_t end);
  [[nodiscard]] size_t end_of_fusion(size_t begin) const;
  Status start_all();
  static void wait_for_all(const std::vector<Awaited>& awaited);

  std::byte* packed_memory(size_t bytes);

  std::vector<Entry> entries_;
  std::unique_ptr<std::byte[]> packed_;
  size_t packed_bytes_ = 0;
};

}  // namespace gimbal
