// Node-direct for small messages: every rank writes its elements beside a flag, reads everybody's, and reduces or copies them
// itself. One synchronisation, no second trip, no barrier.
//
// Two slots per rank suffice: who has finished epoch e-1 has seen every peer enter it, so every peer has finished reading e-2.
//
// Serves all_reduce, reduce, all_gather, gather, broadcast and barrier with at most SmallSlot::kPayloadBytes per rank.
#pragma once

#include <cstdint>

#include "runtime/call.h"
#include "runtime/node_context.h"
#include "runtime/operation.h"

namespace gimbal {

class SmallExchange final : public Operation {
 public:
  static bool serves(const Call& call);

  // reduce: find_reduce(call.dtype, call.op), null for collectives that do not reduce.
  SmallExchange(NodeContext& context, const Call& call, const Signature& signature, ReduceFunction reduce);

  Result<Progress> progress() override;
  [[nodiscard]] uint64_t moves() const override { return static_cast<uint64_t>(next_); }
  [[nodiscard]] Rank waiting_for() const override { return next_; }

 private:
  void publish();
  void ring_once();
  Result<bool> all_published();
  Status finish();
  Status finish_reduction();

  NodeContext& context_;
  const Call& call_;
  const Signature& signature_;
  ReduceFunction reduce_;
  uint32_t epoch_;
  uint64_t expected_word_;
  Rank next_ = 0;
  bool published_ = false;
  bool rung_ = false;
};

}  // namespace gimbal
