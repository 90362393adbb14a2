// The completions of one direction of a queue pair on their way into the completion queue: in order, and with a seed late and
// in batches. Used under the context's lock.
#pragma once

#include <cstdint>
#include <deque>

#include "tests/support/hostile_verbs/completion_queue.h"
#include "tests/support/hostile_verbs/context.h"

namespace gimbal::hostile {

class Lane {
 public:
  struct Staged {
    Completion completion;
    uint64_t message;
    int64_t not_before_ns;
  };

  Lane(Context& context, Dice& dice) : context_(context), dice_(dice) {}

  void stage(const Completion& completion, uint64_t message, const Turn& turn) {
    constexpr uint64_t kLongestDelayNs = 200'000;
    const bool delayed = context_.hostility.hostile() && dice_.one_in(4);
    const int64_t delay = delayed ? static_cast<int64_t>(dice_.below(kLongestDelayNs)) : 0;
    staged_.push_back({completion, message, turn.now_ns + delay});
  }

  // The next completion that is due, or null.
  [[nodiscard]] const Staged* due(Turn& turn) const {
    if (staged_.empty()) return nullptr;
    if (staged_.front().not_before_ns <= turn.now_ns) return &staged_.front();
    turn.at(staged_.front().not_before_ns);
    return nullptr;
  }
  void pop() { staged_.pop_front(); }
  // What is staged is due: the cause of an error is told before the flushes that follow from it, as adapters do.
  void hurry(const Turn& turn) {
    for (Staged& staged : staged_) staged.not_before_ns = turn.now_ns;
  }

 private:
  Context& context_;
  Dice& dice_;
  std::deque<Staged> staged_;
};

}  // namespace gimbal::hostile
