#include "transport/uring_poller.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace gimbal {
namespace {

constexpr unsigned kRequests = 256;  // that can be queued; more submit the others first
// Of a request to cancel another one: its own end says nothing.
constexpr uint64_t kNobody = UINT64_MAX;

}  // namespace

Result<std::unique_ptr<SocketPoller>> UringPoller::create() {
  std::unique_ptr<UringPoller> poller(new UringPoller());
  io_uring_params parameters = {};
  // Without interrupts: what has happened is taken when this thread looks. (Linux 5.19.)
  parameters.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CLAMP;
  const int error = -io_uring_queue_init_params(kRequests, &poller->ring_, &parameters);
  if (error != 0) {
    poller->ring_.ring_fd = -1;
    return Status(Code::kUnsupported, system_error("io_uring", error).message());
  }
  return std::unique_ptr<SocketPoller>(std::move(poller));
}

UringPoller::~UringPoller() {
  if (ring_.ring_fd >= 0) io_uring_queue_exit(&ring_);
}

io_uring_sqe& UringPoller::next_request() {
  io_uring_sqe* request = io_uring_get_sqe(&ring_);
  while (request == nullptr) {
    io_uring_submit(&ring_);  // makes room: the kernel takes all that is queued
    request = io_uring_get_sqe(&ring_);
  }
  return *request;
}

UringPoller::Subject UringPoller::subject(const SocketUser& user, bool writable) const {
  const auto index = static_cast<uint32_t>(user.poller_state.index);
  return {places_[index].serial, index, writable};
}

Status UringPoller::add(SocketUser& user) {
  if (free_places_.empty()) {
    free_places_.push_back(static_cast<uint32_t>(places_.size()));
    places_.emplace_back();
  }
  const uint32_t index = free_places_.back();
  free_places_.pop_back();
  places_[index] = {&user, ++serial_};
  user.poller_state.index = index;
  watch_readable(user);
  return submit();
}

void UringPoller::remove(SocketUser& user) {
  SocketUser::State& state = user.poller_state;
  if (state.closed) return;
  state.closed = true;
  std::erase(readable_, &user);
  if (in_forked_child()) return;
  // A posted request would keep the socket open after its descriptor is closed.
  for (const bool writable : {false, true}) {
    if (writable && !state.watched) continue;
    io_uring_sqe& request = next_request();
    io_uring_prep_poll_remove(&request, subject(user, writable).pack());
    io_uring_sqe_set_data64(&request, kNobody);
  }
  io_uring_submit(&ring_);
  places_[state.index] = {};
  free_places_.push_back(static_cast<uint32_t>(state.index));
}

void UringPoller::watch_readable(SocketUser& user) {
  io_uring_sqe& request = next_request();
  io_uring_prep_poll_multishot(&request, user.socket(), POLLIN | POLLRDHUP);
  io_uring_sqe_set_data64(&request, subject(user, false).pack());
}

void UringPoller::watch_writable(SocketUser& user) {
  if (user.poller_state.watched) return;
  user.poller_state.watched = true;
  io_uring_sqe& request = next_request();
  io_uring_prep_poll_add(&request, user.socket(), POLLOUT);
  io_uring_sqe_set_data64(&request, subject(user, true).pack());
}

Status UringPoller::submit() {
  const int submitted = io_uring_submit(&ring_);
  // With the completion queue full, or little memory: the next look tries again.
  if (submitted >= 0 || submitted == -EBUSY || submitted == -EAGAIN || submitted == -EINTR) return {};
  return system_error("io_uring_submit", -submitted);
}

void UringPoller::reap() {
  std::array<io_uring_cqe*, 64> done;
  const unsigned count = io_uring_peek_batch_cqe(&ring_, done.data(), done.size());
  for (unsigned i = 0; i < count; ++i) {
    const io_uring_cqe one = *done[i];
    io_uring_cqe_seen(&ring_, done[i]);  // before it is worked on, which may post requests that end at once
    take(one);
  }
}

void UringPoller::take(const io_uring_cqe& done) {
  if (done.user_data == kNobody) return;
  const Subject about = Subject::unpack(done.user_data);
  const Place& place = places_[about.index];
  if (place.user == nullptr || place.serial != about.serial) return;
  SocketUser& user = *place.user;
  if (about.writable) {
    user.poller_state.watched = false;
    user.poller_state.blocked = false;
    return send(user);
  }
  if (!user.poller_state.readable) {
    user.poller_state.readable = true;
    readable_.push_back(&user);
  }
  if ((done.flags & IORING_CQE_F_MORE) == 0) watch_readable(user);
}

Status UringPoller::look() {
  if (io_uring_sq_ready(&ring_) > 0) RETURN_IF_ERROR(submit());
  reap();
  // A request tells once that a socket has become readable: it stays in the list until a receive has taken all there was.
  for (size_t i = 0; i < readable_.size();) {
    SocketUser& user = *readable_[i];
    if (receive(user)) {
      ++i;
    } else if (!user.poller_state.closed) {  // else remove() has taken it out
      user.poller_state.readable = false;
      readable_.erase(readable_.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return {};
}

bool UringPoller::may_sleep() {
  if (io_uring_sq_ready(&ring_) > 0 && !submit().ok()) return false;  // the look reports it
  return readable_.empty() && io_uring_cq_ready(&ring_) == 0 && (IO_URING_READ_ONCE(*ring_.sq.kflags) & IORING_SQ_TASKRUN) == 0;
}

}  // namespace gimbal
