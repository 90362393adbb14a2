#include "transport/loopback_endpoint.h"

#include <deque>
#include <mutex>
#include <tuple>

namespace gimbal {
namespace {

// One direction of one channel.
struct Queue {
  struct Message {
    std::vector<std::byte> bytes;
    uint64_t tag;
  };
  std::mutex mutex;
  std::deque<Message> messages;  // committed and not yet released; a deque keeps references while it grows
};

using Queues = std::vector<std::unique_ptr<Queue>>;  // by channel

class LoopbackEndpoint : public Endpoint {
 public:
  LoopbackEndpoint(Rank peer, const LoopbackOptions& options, std::shared_ptr<Queues> sending,
                   std::shared_ptr<Queues> receiving)
      : peer_(peer),
        options_(options),
        sending_(std::move(sending)),
        receiving_(std::move(receiving)),
        slots_(options.channels) {}

  [[nodiscard]] Rank peer() const override { return peer_; }
  [[nodiscard]] const LinkProperties& properties() const override { return properties_; }
  [[nodiscard]] size_t slot_bytes() const override { return options_.slot_bytes; }
  [[nodiscard]] size_t window() const override { return options_.window; }
  [[nodiscard]] Channel channels() const override { return options_.channels; }

  Result<std::optional<std::span<std::byte>>> acquire(Channel channel, [[maybe_unused]] size_t bytes) override {
    GIMBAL_DCHECK(channel < options_.channels && bytes <= options_.slot_bytes);
    Queue& queue = *(*sending_)[channel];
    {
      const std::lock_guard<std::mutex> lock(queue.mutex);
      if (queue.messages.size() == options_.window) return std::optional<std::span<std::byte>>();
    }
    std::vector<std::byte>& slot = slots_[channel];
    slot.resize(options_.slot_bytes);
    return std::optional(std::span(slot));
  }

  Status commit(Channel channel, size_t bytes, uint64_t tag) override {
    GIMBAL_DCHECK(channel < options_.channels && bytes <= options_.slot_bytes);
    Queue& queue = *(*sending_)[channel];
    std::vector<std::byte> message = std::move(slots_[channel]);
    slots_[channel] = {};
    message.resize(bytes);
    const std::lock_guard<std::mutex> lock(queue.mutex);
    queue.messages.push_back({.bytes = std::move(message), .tag = tag});
    return {};
  }

  Result<std::optional<ReceivedMessage>> front(Channel channel) override {
    GIMBAL_DCHECK(channel < options_.channels);
    Queue& queue = *(*receiving_)[channel];
    const std::lock_guard<std::mutex> lock(queue.mutex);
    if (queue.messages.empty()) return std::optional<ReceivedMessage>();
    const Queue::Message& message = queue.messages.front();
    return std::optional(ReceivedMessage{.bytes = message.bytes, .tag = message.tag});
  }

  void release(Channel channel) override {
    Queue& queue = *(*receiving_)[channel];
    const std::lock_guard<std::mutex> lock(queue.mutex);
    GIMBAL_DCHECK(!queue.messages.empty());
    queue.messages.pop_front();
  }

 private:
  const Rank peer_;
  const LoopbackOptions options_;
  const LinkProperties properties_ = {.cost = {}, .shares_memory = true};
  const std::shared_ptr<Queues> sending_;
  const std::shared_ptr<Queues> receiving_;
  std::vector<std::vector<std::byte>> slots_;  // acquired and not yet committed, by channel
};

std::shared_ptr<Queues> make_queues(Channel channels) {
  auto queues = std::make_shared<Queues>();
  for (Channel channel = 0; channel < channels; ++channel) queues->push_back(std::make_unique<Queue>());
  return queues;
}

}  // namespace

std::pair<std::unique_ptr<Endpoint>, std::unique_ptr<Endpoint>> make_loopback_pair(Rank a, Rank b,
                                                                                   const LoopbackOptions& options) {
  const std::shared_ptr<Queues> from_a = make_queues(options.channels);
  const std::shared_ptr<Queues> from_b = make_queues(options.channels);
  return {std::make_unique<LoopbackEndpoint>(b, options, from_a, from_b),
          std::make_unique<LoopbackEndpoint>(a, options, from_b, from_a)};
}

LoopbackMesh make_loopback_mesh(Rank ranks, const LoopbackOptions& options) {
  const auto count = static_cast<size_t>(ranks);
  LoopbackMesh mesh(count);
  for (auto& row : mesh) row.resize(count);
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = a + 1; b < count; ++b) {
      std::tie(mesh[a][b], mesh[b][a]) = make_loopback_pair(static_cast<Rank>(a), static_cast<Rank>(b), options);
    }
  }
  return mesh;
}

}  // namespace gimbal
