// What has arrived on one channel of a verbs endpoint: chunks in any order, each exactly once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/verbs/wire.h"

namespace gimbal {

class VerbsArrivals {
 public:
  explicit VerbsArrivals(size_t window) : window_(window) {}

  // A chunk's notice. `header` is the one in the message's slot, read only once the first chunk is there; `bytes` are those
  // that the request carried. Empty, or what the peer did wrong.
  std::string add(const VerbsImmediate& notice, size_t bytes, const SlotLayout& layout, const SlotHeader& header);

  [[nodiscard]] bool front_is_complete() const { return at(released_).complete; }
  // Counts messages from 0; the sequence of the front.
  [[nodiscard]] uint32_t released() const { return released_; }
  // The sequence that a notice means.
  [[nodiscard]] uint32_t full(const VerbsImmediate& notice) const {
    return released_ + static_cast<uint32_t>(notice.ahead_of(released_));
  }
  void release() { window_[released_++ % window_.size()] = {}; }

  // The chunks that are there of the message in this place of the window, a bit each.
  [[nodiscard]] uint64_t chunks_at(size_t place) const { return window_[place].chunks; }

 private:
  struct Message {
    uint64_t chunks = 0;   // a bit per chunk that is there
    uint64_t carried = 0;  // bytes, the header included
    bool complete = false;
  };
  [[nodiscard]] Message& at(uint32_t sequence) { return window_[sequence % window_.size()]; }
  [[nodiscard]] const Message& at(uint32_t sequence) const { return window_[sequence % window_.size()]; }

  std::vector<Message> window_;  // by sequence modulo its size
  uint32_t released_ = 0;
};

}  // namespace gimbal
