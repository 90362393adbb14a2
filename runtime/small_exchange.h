// Node-direct for small messages: every rank writes its elements beside a flag, reads everybody's, and reduces or copies them
// itself. One synchronisation, no second trip, no barrier.
//
// Two slots per rank suffice: who has finished epoch e-1 has seen every peer enter it, so every peer has finished reading e-2.
//
// A rank reads its own contribution where the caller has it: what it has just written to its slot waits in the store buffer
// until the peers' caches have given the lines back, and a load that needs several of those stores waits with them (8 bytes
// between far CPUs: 0.62 -> 0.49 us).
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

  SmallExchange(NodeContext& context, const Call& call, const Signature& signature);

  // What the peers wait for: the first thing that progress() does. For callers that have more to do before.
  void publish();
  Result<Progress> progress() override;
  [[nodiscard]] uint64_t moves() const override { return static_cast<uint64_t>(next_); }
  [[nodiscard]] Rank waiting_for() const override { return next_; }

 private:
  void prepare_reduction();
  void ring_once();
  [[nodiscard]] bool all_published();
  [[nodiscard]] bool next_is_other() const;
  [[nodiscard]] Status mismatch_with_next() const;
  Status finish();
  Status finish_reduction();

  NodeContext& context_;
  const Call& call_;
  const Signature& signature_;
  uint32_t epoch_;
  uint64_t expected_word_;
  ReduceFunction reduce_ = nullptr;
  Rank next_ = 0;
  bool published_ = false;
  bool rung_ = false;
};

}  // namespace gimbal
