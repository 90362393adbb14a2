// One send or one recv: a header that says what follows, then the bytes, through the pair's lane. Matched by order per pair.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/call.h"
#include "runtime/operation.h"
#include "transport/endpoint.h"

namespace gimbal {

class MessageExchange final : public Operation {
 public:
  // call.collective is kSend or kRecv; the call and the endpoint must outlive the operation.
  MessageExchange(const Call& call, Rank rank, Endpoint& endpoint) : call_(call), rank_(rank), endpoint_(endpoint) {}

  Result<Progress> progress() override;
  [[nodiscard]] uint64_t moves() const override { return moves_; }
  [[nodiscard]] Rank waiting_for() const override { return endpoint_.peer(); }

 private:
  Result<Progress> send_some();
  Result<Progress> receive_some();
  Status check_header(std::span<const std::byte> message) const;

  const Call& call_;
  const Rank rank_;
  Endpoint& endpoint_;
  size_t moved_bytes_ = 0;
  uint64_t moves_ = 0;  // messages; the first carries the header
};

}  // namespace gimbal
