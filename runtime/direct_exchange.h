// Node-direct without copies, for memory from gimbal_mem_alloc: ranks read each other's inputs and write each other's outputs.
//
//   two shots (all_reduce)  announce | reduce the own slice of all inputs into all outputs | finished
//   one shot (all_reduce)   announce | reduce all inputs whole into the own output         | finished    (never in place)
//   reduce_scatter          announce | reduce the own block of all inputs                  | finished
//   all_gather, broadcast   announce | copy what the peers hold                            | finished
//
// Whether a peer's buffers are of this kind is known only when it has announced its call. When one peer's are not, all ranks
// take StagedExchange: those without registered buffers have begun with it anyway. Signatures are compared before the first
// store into a peer's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/allocations.h"
#include "runtime/call.h"
#include "runtime/node_context.h"
#include "runtime/operation.h"
#include "runtime/staged_exchange.h"

namespace gimbal {

struct DirectChoice {
  bool two_shot = true;
  StoreMode store = StoreMode::kCached;
};

class DirectExchange final : public Operation {
 public:
  static bool serves(Collective collective);

  // send_place and recv_place: of this rank's buffers, neither 0. staged: how to go on when a peer's are not registered.
  DirectExchange(NodeContext& context, const Allocations& allocations, const Call& call, const Signature& signature,
                 ReduceFunction reduce, uint64_t send_place, uint64_t recv_place, const DirectChoice& choice,
                 const StagedChoice& staged);

  Result<Progress> progress() override;
  [[nodiscard]] uint64_t moves() const override {
    return fallback_ ? fallback_->moves() : static_cast<uint64_t>(next_) + at_ + static_cast<uint64_t>(phase_) * 1'000'000;
  }
  [[nodiscard]] Rank waiting_for() const override { return fallback_ ? fallback_->waiting_for() : next_; }

 private:
  enum class Phase : uint8_t { kAnnounce, kGather, kMove, kFinish };

  Result<Progress> advance();
  [[nodiscard]] bool all_announced();
  // True when every rank's places are good; fills peers_.
  Result<bool> resolve_peers();
  [[nodiscard]] bool anyone_in_place() const;
  void move_some();
  void reduce_some(size_t begin, size_t end, bool to_everybody);
  [[nodiscard]] size_t send_bytes() const;
  [[nodiscard]] size_t recv_bytes() const;

  struct Peer {
    std::byte* send;
    std::byte* recv;
  };

  NodeContext& context_;
  const Allocations& allocations_;
  const Call& call_;
  const Signature& signature_;
  const ReduceFunction reduce_;
  const uint64_t send_place_;
  const uint64_t recv_place_;
  DirectChoice choice_;
  const StagedChoice staged_choice_;
  const size_t element_bytes_;

  Phase phase_ = Phase::kAnnounce;
  Rank next_ = 0;
  uint32_t epoch_ = 0;
  double divisor_ = 1;
  size_t at_ = 0;   // the first element of this rank's share that has not been moved
  size_t end_ = 0;  // one past the last
  std::vector<Peer> peers_;
  std::optional<StagedExchange> fallback_;
  bool unrung_ = false;
};

}  // namespace gimbal
