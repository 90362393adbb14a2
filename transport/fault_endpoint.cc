#include "transport/fault_endpoint.h"

#include <algorithm>

namespace gimbal {

FaultEndpoint::FaultEndpoint(std::unique_ptr<Endpoint> inner, const FaultPlan& plan)
    : inner_(std::move(inner)), plan_(plan), random_(plan.seed), slots_(inner_->channels()) {}

bool FaultEndpoint::says_again() { return std::uniform_real_distribution<double>(0, 1)(random_) < plan_.again_probability; }

Result<std::optional<std::span<std::byte>>> FaultEndpoint::acquire(Channel channel, size_t bytes) {
  if (!error_.ok()) return error_;
  RETURN_IF_ERROR(send_delayed());
  // A message that is due goes first, as soon as the window has room for it.
  const bool waits = delayed_ && delayed_->due && delayed_->channel == channel;
  if (waits || says_again()) return std::optional<std::span<std::byte>>();
  ASSIGN_OR_RETURN(const std::optional<std::span<std::byte>> slot, inner_->acquire(channel, bytes));
  if (slot) slots_[channel] = *slot;
  return slot;
}

Status FaultEndpoint::commit(Channel channel, size_t bytes, uint64_t tag) {
  if (!error_.ok()) return error_;
  const uint64_t message = committed_++;
  if (message >= plan_.fail_after) {
    error_ = Status(Code::kRemote, "rank " + std::to_string(peer()) + " is gone: planned fault after " +
                                       std::to_string(plan_.fail_after) + " messages");
    return error_;
  }
  const std::span<std::byte> payload = slots_[channel].first(bytes);
  if (message == plan_.drop_message) return {};  // the slot stays acquired and serves the next message
  if (message == plan_.corrupt_message && bytes > 0) payload[random_() % bytes] ^= std::byte{1} << (random_() % 8);
  if (message == plan_.delay_message) {
    delayed_ = Delayed{.channel = channel, .bytes = {payload.begin(), payload.end()}, .tag = tag};
    return {};
  }
  RETURN_IF_ERROR(inner_->commit(channel, bytes, tag));
  if (delayed_ && delayed_->channel == channel) delayed_->due = true;
  return send_delayed();
}

Status FaultEndpoint::send_delayed() {
  if (!delayed_ || !delayed_->due) return {};
  ASSIGN_OR_RETURN(const std::optional<std::span<std::byte>> slot, inner_->acquire(delayed_->channel, delayed_->bytes.size()));
  if (!slot) return {};
  std::copy(delayed_->bytes.begin(), delayed_->bytes.end(), slot->begin());
  RETURN_IF_ERROR(inner_->commit(delayed_->channel, delayed_->bytes.size(), delayed_->tag));
  delayed_.reset();
  return {};
}

Result<std::optional<ReceivedMessage>> FaultEndpoint::front(Channel channel) {
  if (!error_.ok()) return error_;
  if (says_again()) return std::optional<ReceivedMessage>();
  return inner_->front(channel);
}

Status FaultEndpoint::progress() {
  if (!error_.ok()) return error_;
  RETURN_IF_ERROR(send_delayed());
  return inner_->progress();
}

}  // namespace gimbal
