// Messages on their way in the verifier: one queue of symbols per ordered pair of ranks and channel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/schedule.h"
#include "collectives/symbolic.h"

namespace gimbal {

struct MessageHeader {
  uint32_t chunk;
  uint32_t count;
  Payload payload;
  int32_t step;  // the sender's
};

// One queue. A message is `slices` slots long: the sender pushes its header and symbols with the first slice, the receiver pops
// them with the first, and `in_flight` counts slots.
struct MessageQueue {
  std::vector<MessageHeader> headers;
  std::vector<Symbol> symbols;
  size_t first_header = 0;
  size_t first_symbol = 0;
  uint32_t in_flight = 0;

  void push(const MessageHeader& header, std::span<const Symbol> values) {
    headers.push_back(header);
    symbols.insert(symbols.end(), values.begin(), values.end());
  }
  [[nodiscard]] bool empty() const { return first_header == headers.size(); }
  [[nodiscard]] const MessageHeader& front() const { return headers[first_header]; }
  void pop_into(std::vector<Symbol>& values) {
    const auto begin = symbols.begin() + static_cast<std::ptrdiff_t>(first_symbol);
    values.assign(begin, begin + front().count);
    first_symbol += front().count;
    ++first_header;
    if (!empty()) return;
    headers.clear();
    symbols.clear();
    first_header = first_symbol = 0;
  }
};

class MessageQueues {
 public:
  // Queues for every pair between which some step sends.
  explicit MessageQueues(std::span<const Schedule> schedules);

  // Null when no step of `from` sends to `to` on this channel.
  MessageQueue* find(Rank from, Rank to, uint8_t channel);

  // Calls body(from, to, channel, queue) for every queue.
  template <typename Body>
  void for_each(const Body& body) const {
    for (size_t from = 0; from < targets_.size(); ++from) {
      for (const Target& target : targets_[from]) {
        body(static_cast<Rank>(from), target.rank, target.channel, queues_[target.queue]);
      }
    }
  }

 private:
  struct Target {
    uint8_t channel;
    Rank rank;
    size_t queue;
  };
  static bool is_before(const Target& a, const Target& b) {
    return a.channel != b.channel ? a.channel < b.channel : a.rank < b.rank;
  }

  std::vector<std::vector<Target>> targets_;  // per sender, sorted
  std::vector<MessageQueue> queues_;
};

}  // namespace gimbal
