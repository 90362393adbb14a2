// One port of one device, opened for one poller: its protection domain, completion queues and registered memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/verbs/library.h"
#include "transport/verbs/port.h"

namespace gimbal {

class VerbsRail {
 public:
  static Result<std::unique_ptr<VerbsRail>> open(std::shared_ptr<const VerbsLibrary> library, const VerbsPort& port);
  VerbsRail(const VerbsRail&) = delete;
  VerbsRail& operator=(const VerbsRail&) = delete;
  ~VerbsRail();

  [[nodiscard]] const VerbsLibrary& library() const { return *library_; }
  [[nodiscard]] const VerbsPort& port() const { return port_; }
  [[nodiscard]] ibv_pd* domain() const { return domain_; }
  [[nodiscard]] uint32_t local_key() const { return region_->lkey; }
  [[nodiscard]] uint32_t remote_key() const { return region_->rkey; }
  [[nodiscard]] std::span<ibv_cq* const> queues() const { return queues_; }
  // Readable when an armed queue got a completion, and when the device has something to say.
  [[nodiscard]] int completion_fd() const { return channel_->fd; }
  [[nodiscard]] int event_fd() const { return context_->async_fd; }

  // Once. NO_MEMORY names the bytes wanted and RLIMIT_MEMLOCK.
  Status register_memory(std::span<std::byte> memory);

  // A queue in which this many completions more can never overflow. `expected`: how many will be asked for in all.
  Result<ibv_cq*> reserve(size_t completions, size_t expected);

  // The queues' next completion makes completion_fd() readable. What it was readable for before is taken off first.
  Status arm();
  bool next_event(ibv_async_event& event);

  // What the parent made is the parent's: a child that frees it would take it from the parent.
  [[nodiscard]] bool in_forked_child() const;

 private:
  VerbsRail(std::shared_ptr<const VerbsLibrary> library, const VerbsPort& port);
  Status start();
  [[nodiscard]] Status failure(const std::string& what, int error) const;

  const pid_t process_;
  const std::shared_ptr<const VerbsLibrary> library_;
  const VerbsPort port_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::vector<ibv_cq*> queues_;
  size_t most_completions_ = 0;  // of one queue, as the device says
  size_t room_ = 0;              // in the last queue
};

// Whether the device registers GPU memory by dmabuf: its driver looks at a bad descriptor only where it does (EBADF).
Result<bool> probe_dmabuf(const VerbsRail& rail);

}  // namespace gimbal
