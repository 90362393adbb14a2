// A call on device memory on its way into its stream, a part at a time: a group enqueues the parts of its calls in turns, so
// that none waits on a stream for one that is enqueued behind it.
#pragma once

#include <memory>

#include "base/status.h"
#include "runtime/started_operations.h"

namespace gimbal {

class EnqueuedCall {
 public:
  EnqueuedCall() = default;
  EnqueuedCall(const EnqueuedCall&) = delete;
  EnqueuedCall& operator=(const EnqueuedCall&) = delete;
  virtual ~EnqueuedCall() = default;

  // Enqueues the next part.
  virtual Status advance() = 0;
  // Whether all of it is enqueued.
  [[nodiscard]] virtual bool is_enqueued() const = 0;
  // Of the whole call, once it is enqueued; done when the stream has passed it.
  [[nodiscard]] virtual std::shared_ptr<Request> request() const = 0;
};

}  // namespace gimbal
