#include "transport/control_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/socket.h"

namespace gimbal {
namespace {

constexpr size_t kDescriptorsPerRead = 8;
// What a peer may have sent ahead of this rank's calls: a few of the largest values.
constexpr size_t kMaxHeldBytes = size_t{64} << 20;
constexpr size_t kMaxHeldDescriptors = 1024;

template <size_t kCount>
struct alignas(cmsghdr) DescriptorSpace {
  char bytes[CMSG_SPACE(sizeof(int) * kCount)] = {};
};

void keep_descriptors(msghdr& message, std::deque<FileDescriptor>& arrived) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      arrived.emplace_back(fd);
    }
  }
}

}  // namespace

void ControlConnection::queue(FrameKind kind, uint64_t tag, SharedBytes payload) {
  const auto bytes = static_cast<uint32_t>(payload->size());
  outbox_.push_back({.header = encode(FrameHeader{.kind = kind, .bytes = bytes, .tag = tag}),
                     .payload = std::move(payload),
                     .descriptor = {}});
}

void ControlConnection::queue_descriptor(FileDescriptor fd) {
  outbox_.push_back({.header = encode(FrameHeader{.kind = FrameKind::kDescriptor}),
                     .payload = std::make_shared<const Bytes>(),
                     .descriptor = std::move(fd)});
}

Status ControlConnection::flush() {
  while (!outbox_.empty() && !broken_) {
    OutFrame& frame = outbox_.front();
    ASSIGN_OR_RETURN(const size_t sent, send_part(frame));
    if (sent == 0) return {};
    frame.descriptor.reset();  // it goes with the first byte
    frame.sent += sent;
    if (frame.sent == frame.header.size() + frame.payload->size()) outbox_.pop_front();
  }
  return {};
}

Result<size_t> ControlConnection::send_part(const OutFrame& frame) {
  std::array<iovec, 2> parts = {};
  size_t count = 0;
  size_t skip = frame.sent;
  for (const Bytes* bytes : {&frame.header, frame.payload.get()}) {
    const size_t skipped = std::min(skip, bytes->size());
    skip -= skipped;
    if (skipped == bytes->size()) continue;
    parts[count++] = {.iov_base = const_cast<std::byte*>(bytes->data()) + skipped, .iov_len = bytes->size() - skipped};
  }
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  DescriptorSpace<1> space;
  if (frame.descriptor.valid()) {
    message.msg_control = space.bytes;
    message.msg_controllen = sizeof(space.bytes);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = frame.descriptor.get();
    std::memcpy(CMSG_DATA(part), &fd, sizeof(fd));
  }
  for (;;) {
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (is_lost_connection(errno)) {
      broken_ = true;
      return 0;
    }
    return system_error("writing to " + peer_, errno);
  }
}

Status ControlConnection::fill() {
  std::array<std::byte, size_t{64} << 10> buffer;
  while (!closed_) {
    iovec part = {.iov_base = buffer.data(), .iov_len = buffer.size()};
    DescriptorSpace<kDescriptorsPerRead> space;
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space.bytes;
    message.msg_controllen = sizeof(space.bytes);
    const ssize_t received = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (received < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      if (!is_lost_connection(errno)) return system_error("reading from " + peer_, errno);
      host_is_silent_ = is_silence(errno);
    }
    if (received <= 0) {
      closed_ = true;
      return {};
    }
    keep_descriptors(message, arrived_descriptors_);
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      return {Code::kSystem, "a descriptor from " + peer_ + " could not be received: too many open files (RLIMIT_NOFILE)"};
    }
    inbox_.insert(inbox_.end(), buffer.begin(), buffer.begin() + received);
    RETURN_IF_ERROR(take_frames());
  }
  return {};
}

Status ControlConnection::take_frames() {
  size_t taken = 0;
  while (inbox_.size() - taken >= kFrameHeaderBytes) {
    const std::span<const std::byte> left = std::span(inbox_).subspan(taken);
    const std::optional<FrameHeader> header = parse_frame_header(left.first(kFrameHeaderBytes));
    if (!header) return malformed("a frame header");
    if (left.size() < kFrameHeaderBytes + header->bytes) break;
    const std::span<const std::byte> payload = left.subspan(kFrameHeaderBytes, header->bytes);
    RETURN_IF_ERROR(deliver(*header, Bytes(payload.begin(), payload.end())));
    taken += kFrameHeaderBytes + header->bytes;
  }
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<ptrdiff_t>(taken));
  return {};
}

Status ControlConnection::deliver(const FrameHeader& header, Bytes payload) {
  held_bytes_ += payload.size() + kFrameHeaderBytes;
  if (held_bytes_ > kMaxHeldBytes || descriptors_.size() > kMaxHeldDescriptors) return malformed("more than it may hold here");
  switch (header.kind) {
    case FrameKind::kMessage:
      messages_.push_back(std::move(payload));
      return {};
    case FrameKind::kNews:
      news_.push_back(std::move(payload));
      return {};
    case FrameKind::kGather:
      gathered_[header.tag].push_back(std::move(payload));
      return {};
    case FrameKind::kSurvivor:
      survivor_messages_.push_back(std::move(payload));
      return {};
    case FrameKind::kFault: {
      std::optional<Status> fault = parse_fault(payload);
      if (!fault) return malformed("a fault without a sentence");
      fault_ = *std::move(fault);
      return {};
    }
    case FrameKind::kDescriptor:
      if (arrived_descriptors_.empty()) return malformed("a descriptor frame without a descriptor");
      descriptors_.push_back(std::move(arrived_descriptors_.front()));
      arrived_descriptors_.pop_front();
      return {};
  }
  return malformed("a frame of no kind");
}

Status ControlConnection::malformed(const std::string& what) const {
  return {Code::kInternal, peer_ + " sent what no rank sends on a control connection: " + what};
}

std::optional<Bytes> ControlConnection::take_front(std::deque<Bytes>& queue) {
  if (queue.empty()) return std::nullopt;
  Bytes front = std::move(queue.front());
  queue.pop_front();
  held_bytes_ -= front.size() + kFrameHeaderBytes;
  return front;
}

std::optional<Bytes> ControlConnection::take_message() { return take_front(messages_); }

std::optional<Bytes> ControlConnection::take_news() { return take_front(news_); }

std::optional<Bytes> ControlConnection::take_survivor_message() { return take_front(survivor_messages_); }

std::optional<Bytes> ControlConnection::take_gathered(uint64_t tag) {
  const auto entry = gathered_.find(tag);
  if (entry == gathered_.end()) return std::nullopt;
  Bytes value = std::move(entry->second.front());
  entry->second.pop_front();
  if (entry->second.empty()) gathered_.erase(entry);
  held_bytes_ -= value.size() + kFrameHeaderBytes;
  return value;
}

std::optional<FileDescriptor> ControlConnection::take_descriptor() {
  if (descriptors_.empty()) return std::nullopt;
  FileDescriptor fd = std::move(descriptors_.front());
  descriptors_.pop_front();
  held_bytes_ -= kFrameHeaderBytes;
  return fd;
}

}  // namespace gimbal
