#include "transport/verbs/poller.h"

#include <sys/epoll.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gimbal {
namespace {

constexpr size_t kLineBytes = 64;

const char* event_name(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_PORT_ERR:
      return "its port is down";
    case IBV_EVENT_DEVICE_FATAL:
      return "its device failed";
    default:
      return nullptr;
  }
}

Status watch(int epoll, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return system_error("epoll_ctl for a completion channel", errno);
  return {};
}

}  // namespace

void VerbsPoller::Unmap::operator()(std::byte* memory) const { munmap(memory, bytes); }

VerbsPoller::~VerbsPoller() = default;

Result<std::unique_ptr<VerbsPoller>> VerbsPoller::create(const std::shared_ptr<const VerbsLibrary>& library,
                                                         std::span<const VerbsPort> ports, size_t memory_bytes) {
  std::unique_ptr<VerbsPoller> poller(new VerbsPoller());
  poller->epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!poller->epoll_.valid()) return system_error("epoll_create1", errno);
  RETURN_IF_ERROR(poller->map_memory(memory_bytes));
  for (const VerbsPort& port : ports) RETURN_IF_ERROR(poller->add_rail(library, port));
  return poller;
}

Status VerbsPoller::add_rail(const std::shared_ptr<const VerbsLibrary>& library, const VerbsPort& port) {
  ASSIGN_OR_RETURN(std::unique_ptr<VerbsRail> rail, VerbsRail::open(library, port));
  RETURN_IF_ERROR(rail->register_memory({memory_.get(), memory_.get_deleter().bytes}));
  RETURN_IF_ERROR(watch(epoll_.get(), rail->completion_fd()));
  RETURN_IF_ERROR(watch(epoll_.get(), rail->event_fd()));
  rails_.push_back(std::move(rail));
  return {};
}

// Shared, so that a fork does not give the parent other pages than those that the device knows.
Status VerbsPoller::map_memory(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return {Code::kNoMemory, "no " + std::to_string(bytes) + " bytes for the message slots of verbs: " + std::strerror(errno)};
  }
  memory_ = {static_cast<std::byte*>(memory), Unmap{bytes}};
  return {};
}

std::span<std::byte> VerbsPoller::take_memory(size_t bytes) {
  const size_t begin = memory_taken_;
  memory_taken_ += (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  GIMBAL_DCHECK(memory_taken_ <= memory_.get_deleter().bytes);
  return {memory_.get() + begin, bytes};
}

Result<std::unique_ptr<VerbsQueuePair>> VerbsPoller::make_pair(size_t rail, VerbsPairOwner& owner,
                                                               VerbsQueuePair::Options options) {
  options.index = static_cast<uint32_t>(pairs_.size());
  ASSIGN_OR_RETURN(std::unique_ptr<VerbsQueuePair> pair, VerbsQueuePair::create(*rails_[rail], owner, options));
  pairs_.push_back(pair.get());
  return pair;
}

void VerbsPoller::forget(const VerbsQueuePair& pair) { pairs_[pair.index()] = nullptr; }

Result<bool> VerbsPoller::take_completions(VerbsRail& rail) {
  std::array<ibv_wc, 32> completions;
  bool took = false;
  for (ibv_cq* const queue : rail.queues()) {
    const int count = ibv_poll_cq(queue, completions.size(), completions.data());
    if (count < 0) return Status(Code::kDevice, describe(rail.port()) + ": its completion queue cannot be read");
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      VerbsQueuePair* const pair = pairs_[pair_index(completions[i].wr_id)];
      if (pair != nullptr) pair->complete(completions[i]);
    }
    // Receives are back before anything that arrived is released, and so before the peer may send more.
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      VerbsQueuePair* const pair = pairs_[pair_index(completions[i].wr_id)];
      if (pair != nullptr) pair->refill();
    }
    took = took || count > 0;
  }
  return took;
}

Status VerbsPoller::look() {
  for (const std::unique_ptr<VerbsRail>& rail : rails_) RETURN_IF_ERROR(take_completions(*rail).status());
  return {};
}

void VerbsPoller::take_events(VerbsRail& rail) {
  ibv_async_event event = {};
  while (rail.next_event(event)) {
    const char* const what = event_name(event.event_type);
    if (what == nullptr) continue;
    if (event.event_type == IBV_EVENT_PORT_ERR && event.element.port_num != rail.port().port) continue;
    for (VerbsQueuePair* const pair : std::vector(pairs_)) {
      if (pair != nullptr && &pair->rail() == &rail && pair->is_up()) pair->owner().port_down(rail, what);
    }
  }
}

bool VerbsPoller::may_sleep() {
  for (VerbsQueuePair* const pair : pairs_) {
    if (pair != nullptr) pair->owner().before_sleep();
  }
  bool found = false;
  for (const std::unique_ptr<VerbsRail>& rail : rails_) {
    take_events(*rail);
    // Whoever cannot be told of a completion goes on looking.
    if (!rail->arm().ok()) return false;
  }
  // What came before the queues were armed is told by no event.
  for (const std::unique_ptr<VerbsRail>& rail : rails_) {
    const Result<bool> took = take_completions(*rail);
    found = found || !took.ok() || *took;
  }
  return !found;
}

}  // namespace gimbal
