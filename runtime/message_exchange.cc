#include "runtime/message_exchange.h"

#include <algorithm>
#include <cstring>

namespace gimbal {
namespace {

struct MessageHeader {
  uint64_t count;
  uint32_t dtype;
  uint32_t reserved;
};

std::string describe_message(uint64_t count, uint32_t dtype) {
  const std::string type(dtype < kPublicDTypeCount ? dtype_name(static_cast<DType>(dtype)) : "an unknown type");
  return std::to_string(count) + " elements of " + type;
}

}  // namespace

Result<Progress> MessageExchange::progress() {
  RETURN_IF_ERROR(endpoint_.progress());
  return call_.collective == Collective::kSend ? send_some() : receive_some();
}

Result<Progress> MessageExchange::send_some() {
  const size_t total = call_.bytes();
  while (moves_ == 0 || moved_bytes_ < total) {
    const size_t header_bytes = moves_ == 0 ? sizeof(MessageHeader) : 0;
    const size_t bytes = std::min(total - moved_bytes_, endpoint_.slot_bytes() - header_bytes);
    ASSIGN_OR_RETURN(const std::optional<std::span<std::byte>> slot, endpoint_.acquire(0, header_bytes + bytes));
    if (!slot) return Progress::kAgain;
    if (header_bytes > 0) {
      const MessageHeader header = {call_.count, static_cast<uint32_t>(call_.dtype), 0};
      std::memcpy(slot->data(), &header, sizeof(header));
    }
    if (bytes > 0) std::memcpy(slot->data() + header_bytes, static_cast<const std::byte*>(call_.send) + moved_bytes_, bytes);
    RETURN_IF_ERROR(endpoint_.commit(0, header_bytes + bytes, 0));
    moved_bytes_ += bytes;
    ++moves_;
  }
  return endpoint_.has_unsent() ? Progress::kAgain : Progress::kDone;
}

Status MessageExchange::check_header(std::span<const std::byte> message) const {
  MessageHeader header = {};
  if (message.size() < sizeof(header)) {
    return {Code::kInternal, "rank " + std::to_string(endpoint_.peer()) + " sent a message without a header"};
  }
  std::memcpy(&header, message.data(), sizeof(header));
  if (header.count == call_.count && header.dtype == static_cast<uint32_t>(call_.dtype)) return {};
  return {Code::kMismatch, "rank " + std::to_string(rank_) + " receives " +
                               describe_message(call_.count, static_cast<uint32_t>(call_.dtype)) + " from rank " +
                               std::to_string(endpoint_.peer()) + ", which sent " +
                               describe_message(header.count, header.dtype)};
}

Result<Progress> MessageExchange::receive_some() {
  const size_t total = call_.bytes();
  while (moves_ == 0 || moved_bytes_ < total) {
    ASSIGN_OR_RETURN(const std::optional<ReceivedMessage> message, endpoint_.front(0));
    if (!message) return Progress::kAgain;
    std::span<const std::byte> bytes = message->bytes;
    if (moves_ == 0) {
      RETURN_IF_ERROR(check_header(bytes));
      bytes = bytes.subspan(sizeof(MessageHeader));
    }
    if (bytes.size() > total - moved_bytes_) {
      return Status(Code::kInternal, "rank " + std::to_string(endpoint_.peer()) + " sent more bytes than it announced");
    }
    if (!bytes.empty()) std::memcpy(static_cast<std::byte*>(call_.recv) + moved_bytes_, bytes.data(), bytes.size());
    endpoint_.release(0);
    moved_bytes_ += bytes.size();
    ++moves_;
  }
  return Progress::kDone;
}

}  // namespace gimbal
