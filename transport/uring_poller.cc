#include "transport/uring_poller.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace gimbal {
namespace {

constexpr unsigned kRequests = 256;  // that can be queued; more submit the others first
// From here on the copy costs more than the system call that a later submission would save.
constexpr size_t kSubmitAtOnceBytes = 4096;

}  // namespace

Result<std::unique_ptr<SocketPoller>> UringPoller::create() {
  std::unique_ptr<UringPoller> poller(new UringPoller());
  io_uring_params parameters = {};
  // Without interrupts: completions are taken when this thread looks. (Linux 5.19.)
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

Status UringPoller::add(SocketUser& user) {
  // io_uring waits for a socket only when it is a blocking one.
  const int flags = fcntl(user.socket(), F_GETFL);
  if (flags < 0 || fcntl(user.socket(), F_SETFL, flags & ~O_NONBLOCK) != 0) return system_error("fcntl of a socket", errno);
  if (free_.empty()) {
    free_.push_back(entries_.size());
    entries_.emplace_back();
  }
  user.poller_state.index = free_.back();
  free_.pop_back();
  entries_[user.poller_state.index].user = &user;
  receive(user);
  return submit();
}

void UringPoller::remove(SocketUser& user) {
  SocketUser::State& state = user.poller_state;
  state.closed = true;
  if (in_forked_child()) return;
  for (const Operation operation : {Operation::kReceive, Operation::kSend}) {
    if (operation == Operation::kReceive ? !state.receiving : !state.sending) continue;
    io_uring_sqe& request = next_request();
    io_uring_prep_cancel64(&request, request_id(state.index, operation), 0);
    io_uring_sqe_set_data64(&request, request_id(state.index, Operation::kCancel));
  }
  while (state.receiving || state.sending) {
    if (const int error = -io_uring_submit_and_wait(&ring_, 1); error > 0 && error != EINTR) break;
    reap();
  }
  entries_[state.index].user = nullptr;
  free_.push_back(state.index);
}

void UringPoller::receive(SocketUser& user) {
  SocketUser::State& state = user.poller_state;
  if (state.closed) return;
  Entry& entry = entries_[state.index];
  entry.receive_header = {};
  entry.receive_header.msg_iov = entry.received_into.data();
  entry.receive_header.msg_iovlen = user.space(entry.received_into);
  io_uring_sqe& request = next_request();
  io_uring_prep_recvmsg(&request, user.socket(), &entry.receive_header, 0);
  io_uring_sqe_set_data64(&request, request_id(state.index, Operation::kReceive));
  state.receiving = true;
}

void UringPoller::send(SocketUser& user) {
  SocketUser::State& state = user.poller_state;
  if (state.sending || state.closed) return;
  Entry& entry = entries_[state.index];
  const size_t count = user.unsent(entry.sent_from);
  if (count == 0) return;
  entry.send_header = {};
  entry.send_header.msg_iov = entry.sent_from.data();
  entry.send_header.msg_iovlen = count;
  io_uring_sqe& request = next_request();
  io_uring_prep_sendmsg(&request, user.socket(), &entry.send_header, MSG_NOSIGNAL);
  io_uring_sqe_set_data64(&request, request_id(state.index, Operation::kSend));
  state.sending = true;
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += entry.sent_from[i].iov_len;
  if (bytes >= kSubmitAtOnceBytes) static_cast<void>(submit());  // what fails now is tried and reported by the next look
}

Status UringPoller::submit() {
  const int submitted = io_uring_submit(&ring_);
  // With the completion queue full, or little memory: the next look tries again.
  if (submitted >= 0 || submitted == -EBUSY || submitted == -EAGAIN || submitted == -EINTR) return {};
  return system_error("io_uring_submit", -submitted);
}

size_t UringPoller::reap() {
  std::array<io_uring_cqe*, 64> done;
  const unsigned count = io_uring_peek_batch_cqe(&ring_, done.data(), done.size());
  for (unsigned i = 0; i < count; ++i) {
    const io_uring_cqe one = *done[i];
    // Before the user sees it: that may submit, and the queue must have room for what ends at once.
    io_uring_cqe_seen(&ring_, done[i]);
    complete(one);
  }
  return count;
}

void UringPoller::complete(const io_uring_cqe& done) {
  const auto operation = static_cast<Operation>(done.user_data & 3);
  SocketUser* const user = entries_[done.user_data >> 2].user;
  if (operation == Operation::kCancel || user == nullptr) return;
  SocketUser::State& state = user->poller_state;
  (operation == Operation::kReceive ? state.receiving : state.sending) = false;
  if (!state.closed) complete_request(*user, operation, done.res);
}

void UringPoller::complete_request(SocketUser& user, Operation operation, int result) {
  const bool receives = operation == Operation::kReceive;
  const bool again = result == -ECANCELED || result == -EINTR || result == -EAGAIN;
  if (!again && (result < 0 || (receives && result == 0))) {
    user.poller_state.closed = true;
    user.closed(-result);
    return;
  }
  if (!again && receives) user.received(static_cast<size_t>(result));
  if (!again && !receives) user.sent(static_cast<size_t>(result));
  if (receives) {
    receive(user);
  } else {
    send(user);
  }
}

Status UringPoller::look() {
  if (io_uring_sq_ready(&ring_) > 0) RETURN_IF_ERROR(submit());
  reap();
  return {};
}

bool UringPoller::may_sleep() {
  if (io_uring_sq_ready(&ring_) > 0 && !submit().ok()) return false;  // the look reports it
  return io_uring_cq_ready(&ring_) == 0 && (IO_URING_READ_ONCE(*ring_.sq.kflags) & IORING_SQ_TASKRUN) == 0;
}

}  // namespace gimbal
