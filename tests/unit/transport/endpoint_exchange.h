// Messages that both sides of a pair of endpoints know, and exchange(), which checks that they cross as the contract of
// transport/endpoint.h says. endpoint_conformance_test.cc shows that it catches planted faults.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "transport/endpoint.h"

namespace gimbal::testing {

struct EndpointPair {
  std::shared_ptr<void> memory;  // what both stand on: destroyed after them
  std::unique_ptr<Endpoint> a;   // rank 0; its peer is rank 1
  std::unique_ptr<Endpoint> b;
};

// The bytes, size and tag of message `index` of a channel, the same on both sides.
class ExpectedMessage {
 public:
  ExpectedMessage(Channel channel, uint64_t index, size_t slot_bytes)
      : tag_((uint64_t{channel} << 56) ^ (index * 0x9e3779b97f4a7c15)) {
    std::mt19937_64 random(tag_);
    size_ = random() % (slot_bytes + 1);
    first_ = static_cast<uint8_t>(random());
  }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] uint64_t tag() const { return tag_; }
  void write(std::span<std::byte> slot) const {
    for (size_t i = 0; i < size_; ++i) slot[i] = at(i);
  }
  [[nodiscard]] std::string difference(const ReceivedMessage& message) const {
    if (message.tag != tag_) return "tag " + std::to_string(message.tag) + " instead of " + std::to_string(tag_);
    if (message.bytes.size() != size_) {
      return std::to_string(message.bytes.size()) + " bytes instead of " + std::to_string(size_);
    }
    for (size_t i = 0; i < size_; ++i) {
      if (message.bytes[i] != at(i)) return "a wrong byte at " + std::to_string(i);
    }
    return "";
  }

 private:
  [[nodiscard]] std::byte at(size_t i) const { return static_cast<std::byte>(first_ + i * 7); }
  uint64_t tag_;
  size_t size_ = 0;
  uint8_t first_ = 0;
};

// Sends the next message on a channel if the window has room. Returns whether it did.
inline Result<bool> send_next(Endpoint& sender, Channel channel, uint64_t index) {
  const ExpectedMessage message(channel, index, sender.slot_bytes());
  ASSIGN_OR_RETURN(const std::optional<std::span<std::byte>> slot, sender.acquire(channel, message.size()));
  if (!slot) return false;
  message.write(*slot);
  RETURN_IF_ERROR(sender.commit(channel, message.size(), message.tag()));
  return true;
}

// Takes the next message of a channel if there is one. INTERNAL says what is wrong with it.
inline Result<bool> take_next(Endpoint& receiver, Channel channel, uint64_t index) {
  ASSIGN_OR_RETURN(const std::optional<ReceivedMessage> message, receiver.front(channel));
  if (!message) return false;
  const std::string difference = ExpectedMessage(channel, index, receiver.slot_bytes()).difference(*message);
  if (!difference.empty()) {
    return Status(Code::kInternal,
                  "message " + std::to_string(index) + " of channel " + std::to_string(channel) + " has " + difference);
  }
  receiver.release(channel);
  return true;
}

// Sends `messages` messages on every channel in a random interleaving of both sides; the checker of contract points 1, 2 and 4.
inline Status exchange(Endpoint& sender, Endpoint& receiver, uint64_t messages, uint64_t seed) {
  const Channel channels = sender.channels();
  std::vector<uint64_t> sent(channels);
  std::vector<uint64_t> taken(channels);
  std::mt19937_64 random(seed);
  const uint64_t stalled_after = 1000 * channels + 1000;  // steps without any movement
  uint64_t idle = 0;
  Deadline stalled = Deadline::never();
  while (std::any_of(taken.begin(), taken.end(), [messages](uint64_t count) { return count < messages; })) {
    const auto channel = static_cast<Channel>(random() % channels);
    bool moved = false;
    if (random() % 2 == 0 && sent[channel] < messages) {
      ASSIGN_OR_RETURN(moved, send_next(sender, channel, sent[channel]));
      if (moved) ++sent[channel];
    } else if (taken[channel] < messages) {
      ASSIGN_OR_RETURN(moved, take_next(receiver, channel, taken[channel]));
      if (moved) ++taken[channel];
    }
    RETURN_IF_ERROR(sender.progress());
    RETURN_IF_ERROR(receiver.progress());
    idle = moved ? 0 : idle + 1;
    if (idle <= stalled_after) continue;
    // A transport that waits for its network, or finds another way, may take longer than any number of steps.
    if (idle == stalled_after + 1) stalled = Deadline::after_ms(10'000);
    if (stalled.passed()) return {Code::kInternal, "nothing moves any more on channel " + std::to_string(channel)};
    std::this_thread::yield();
  }
  return {};
}

}  // namespace gimbal::testing
