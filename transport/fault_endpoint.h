// An endpoint that misbehaves as told: for tests of those who use endpoints, and of the checkers that watch them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "transport/endpoint.h"

namespace gimbal {

inline constexpr uint64_t kNoMessage = std::numeric_limits<uint64_t>::max();

// Messages are those committed on this side, counted from 0 over all channels.
struct FaultPlan {
  uint64_t seed = 0;
  double again_probability = 0;           // of acquire() and front() to say "again" though there is something
  uint64_t fail_after = kNoMessage;       // commits; then every call is a REMOTE error
  uint64_t corrupt_message = kNoMessage;  // one bit of its payload is flipped
  uint64_t drop_message = kNoMessage;     // never sent
  uint64_t delay_message = kNoMessage;    // sent after the next message of its channel
};

class FaultEndpoint : public Endpoint {
 public:
  FaultEndpoint(std::unique_ptr<Endpoint> inner, const FaultPlan& plan);

  [[nodiscard]] Rank peer() const override { return inner_->peer(); }
  [[nodiscard]] const LinkProperties& properties() const override { return inner_->properties(); }
  [[nodiscard]] size_t slot_bytes() const override { return inner_->slot_bytes(); }
  [[nodiscard]] size_t window() const override { return inner_->window(); }
  [[nodiscard]] Channel channels() const override { return inner_->channels(); }

  Result<std::optional<std::span<std::byte>>> acquire(Channel channel, size_t bytes) override;
  Status commit(Channel channel, size_t bytes, uint64_t tag) override;
  Result<std::optional<ReceivedMessage>> front(Channel channel) override;
  void release(Channel channel) override { inner_->release(channel); }
  Status progress() override;
  [[nodiscard]] bool needs_progress() const override { return inner_->needs_progress(); }
  [[nodiscard]] bool has_unsent() const override { return inner_->has_unsent(); }

 private:
  struct Delayed {
    Channel channel = 0;
    std::vector<std::byte> bytes;
    uint64_t tag = 0;
    bool due = false;  // the message that overtakes it has been sent
  };
  bool says_again();
  Status send_delayed();

  const std::unique_ptr<Endpoint> inner_;
  const FaultPlan plan_;
  std::mt19937_64 random_;
  uint64_t committed_ = 0;
  std::vector<std::span<std::byte>> slots_;  // acquired last, by channel
  std::optional<Delayed> delayed_;
  Status error_;
};

}  // namespace gimbal
