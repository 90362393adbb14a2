#include "transport/verbs/rail.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gimbal {
namespace {

ibv_device* find_device(const VerbsLibrary& library, ibv_device** list, int count, const std::string& name) {
  ibv_device** const found =
      std::find_if(list, list + count, [&](ibv_device* device) { return name == library.get_device_name(device); });
  return found == list + count ? nullptr : *found;
}

void make_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

std::string memory_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur) + " bytes";
}

}  // namespace

VerbsRail::VerbsRail(std::shared_ptr<const VerbsLibrary> library, const VerbsPort& port)
    : process_(getpid()), library_(std::move(library)), port_(port) {}

bool VerbsRail::in_forked_child() const { return getpid() != process_; }

Result<std::unique_ptr<VerbsRail>> VerbsRail::open(std::shared_ptr<const VerbsLibrary> library, const VerbsPort& port) {
  std::unique_ptr<VerbsRail> rail(new VerbsRail(std::move(library), port));
  RETURN_IF_ERROR(rail->start());
  return rail;
}

Status VerbsRail::failure(const std::string& what, int error) const {
  return {error == ENOMEM ? Code::kNoMemory : Code::kDevice, describe(port_) + ": " + what + ": " + std::strerror(error)};
}

Status VerbsRail::start() {
  int count = 0;
  ibv_device** const list = library_->get_device_list(&count);
  if (list == nullptr) return failure("libibverbs lists no devices", errno);
  ibv_device* const device = find_device(*library_, list, count, port_.device);
  context_ = device == nullptr ? nullptr : library_->open_device(device);
  const int error = device == nullptr ? ENODEV : errno;
  library_->free_device_list(list);
  if (context_ == nullptr) return failure("cannot be opened", error);
  make_nonblocking(context_->async_fd);
  ibv_device_attr attributes = {};
  if (const int failed = library_->query_device(context_, &attributes); failed != 0) return failure("query", failed);
  most_completions_ = static_cast<size_t>(attributes.max_cqe);
  domain_ = library_->alloc_pd(context_);
  if (domain_ == nullptr) return failure("no protection domain", errno);
  channel_ = library_->create_comp_channel(context_);
  if (channel_ == nullptr) return failure("no completion channel", errno);
  make_nonblocking(channel_->fd);
  return {};
}

// Every queue pair is destroyed before its rail.
VerbsRail::~VerbsRail() {
  if (in_forked_child()) return;
  for (ibv_cq* const queue : queues_) library_->destroy_cq(queue);
  if (region_ != nullptr) library_->dereg_mr(region_);
  if (channel_ != nullptr) library_->destroy_comp_channel(channel_);
  if (domain_ != nullptr) library_->dealloc_pd(domain_);
  if (context_ != nullptr) library_->close_device(context_);
}

Status VerbsRail::register_memory(std::span<std::byte> memory) {
  GIMBAL_DCHECK(region_ == nullptr);
  // No order among stores is relied on anywhere, so the device need not keep one.
  constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING;
  region_ = library_->reg_mr_iova2(domain_, memory.data(), memory.size(), reinterpret_cast<uintptr_t>(memory.data()), kAccess);
  if (region_ != nullptr) return {};
  const int error = errno;
  std::string what = "cannot register the " + std::to_string(memory.size()) + " bytes of its message slots";
  if (error == ENOMEM || error == EPERM) what += " (RLIMIT_MEMLOCK, ulimit -l, is " + memory_limit() + ")";
  return failure(what, error);
}

Result<ibv_cq*> VerbsRail::reserve(size_t completions, size_t expected) {
  if (completions > room_) {
    if (completions > most_completions_) {
      return Status(Code::kUnsupported, describe(port_) + ": a queue pair wants " + std::to_string(completions) +
                                            " places in a completion queue, the device has " +
                                            std::to_string(most_completions_));
    }
    const size_t entries = std::clamp(expected, completions, most_completions_);
    ibv_cq* const queue = library_->create_cq(context_, static_cast<int>(entries), nullptr, channel_, 0);
    if (queue == nullptr) return failure("no completion queue of " + std::to_string(entries), errno);
    queues_.push_back(queue);
    room_ = entries;
  }
  room_ -= completions;
  return queues_.back();
}

Status VerbsRail::arm() {
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  while (library_->get_cq_event(channel_, &queue, &unused) == 0) library_->ack_cq_events(queue, 1);
  for (ibv_cq* const one : queues_) {
    if (ibv_req_notify_cq(one, 0) != 0) return failure("cannot ask for completion events", errno);
  }
  return {};
}

bool VerbsRail::next_event(ibv_async_event& event) {
  if (library_->get_async_event(context_, &event) != 0) return false;
  library_->ack_async_event(&event);
  return true;
}

Result<bool> probe_dmabuf(const VerbsRail& rail) {
  if (rail.library().reg_dmabuf_mr == nullptr) return false;
  constexpr int kBadDescriptor = -1;
  constexpr size_t kPageBytes = 4096;
  ibv_mr* const region = rail.library().reg_dmabuf_mr(rail.domain(), 0, kPageBytes, 0, kBadDescriptor, IBV_ACCESS_LOCAL_WRITE);
  const int error = errno;
  if (region != nullptr) {
    rail.library().dereg_mr(region);
    return Status(Code::kDevice, describe(rail.port()) + ": registers a dmabuf that there is not");
  }
  return error == EBADF;
}

}  // namespace gimbal
