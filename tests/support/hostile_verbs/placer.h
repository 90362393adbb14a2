// Bytes that have arrived and are on their way into memory.
//
// Without a seed they are stored at once. With one they are cut at 8 bytes, wait, and are stored in any order; what a
// completion speaks of must be there before the completion, and nothing else must. Used under the context's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/hostile_verbs/context.h"

namespace gimbal::hostile {

class Placer {
 public:
  Placer(Context& context, Dice& dice) : context_(context), dice_(dice) {}

  void place(uint64_t message, std::byte* to, std::span<const std::byte> bytes, const Turn& turn);
  // Everything of the messages up to this one is in memory afterwards.
  void settle_through(uint64_t message);
  void settle();
  // Some of the rest.
  void advance(Turn& turn);

 private:
  struct Piece {
    uint64_t message;
    std::byte* to;
    std::vector<std::byte> bytes;
  };

  Context& context_;
  Dice& dice_;
  std::vector<Piece> pieces_;
  int64_t last_due_ns_ = 0;
};

}  // namespace gimbal::hostile
