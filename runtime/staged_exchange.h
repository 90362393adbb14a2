// Node-direct for ordinary memory: each rank copies a chunk of its input into its stage slots in shared memory, where all peers
// read it directly; k operands are added in registers in rank order and rounded once.
//
//   one shot   stage | every rank reads all stages and writes its own output       1 synchronisation a chunk
//   two shots  stage | every rank reduces its slice of all stages into its output
//              and its result slot | every rank copies the other slices             2 synchronisations, p times fewer additions
//
// Flags count epochs (one per chunk) and carry the call's signature, so that a mismatch is found before a byte is read; there
// is no barrier. A rank stages up to kAhead chunks before it has finished the first of them. With 2 * kAhead slots no slot is
// overwritten too early: staging k means having finished k - kAhead, hence having seen every peer stage k - kAhead, which they
// did after finishing k - 2 * kAhead. (Result slots: reducing k means having seen every peer stage k, hence every peer finished
// k - kAhead.) The invariant spans operations because epochs do.
//
// Where a peer may take DirectExchange, whoever makes this operation announces the call as well.
//
// Serves every collective but the v-forms, send and recv. Broadcast, scatter, reduce and gather synchronise all ranks too: that
// is what keeps the invariant.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/call.h"
#include "runtime/node_context.h"
#include "runtime/operation.h"

namespace gimbal {

// How one call is carried out; equal on all ranks.
struct StagedChoice {
  size_t chunk_bytes = size_t{256} << 10;  // at most NodeLayout::chunk_bytes
  bool two_shot = false;                   // all_reduce only
  StoreMode stage_store = StoreMode::kCached;
  StoreMode result_store = StoreMode::kCached;  // of the slices that the peers copy, in two shots
  StoreMode output_store = StoreMode::kCached;
};

class StagedExchange final : public Operation {
 public:
  static constexpr uint32_t kAhead = kStageSlots / 2;

  static bool serves(Collective collective);

  StagedExchange(NodeContext& context, const Call& call, const Signature& signature, ReduceFunction reduce,
                 const StagedChoice& choice);

  Result<Progress> progress() override;
  [[nodiscard]] uint64_t moves() const override { return uint64_t{staged_} + reduced_ + finished_; }
  [[nodiscard]] Rank waiting_for() const override { return waiting_for_; }

 private:
  struct Range {
    size_t begin;
    size_t end;
    [[nodiscard]] size_t size() const { return end - begin; }
  };

  [[nodiscard]] Range chunk(uint32_t index) const;
  [[nodiscard]] Range slice(Range chunk, Rank rank) const;
  // Whether all ranks have staged a chunk; MISMATCH when one has staged it for another call.
  Result<bool> all_staged(uint32_t index);
  [[nodiscard]] bool all_reduced(uint32_t index);
  [[nodiscard]] const std::byte* send_at(size_t element) const;
  [[nodiscard]] std::byte* recv_at(size_t element) const;

  void stage(uint32_t index);
  void stage_piece(uint32_t index, size_t send_element, size_t stage_element, size_t elements);
  // Once, when all ranks have staged the first chunk.
  Status read_weights();
  Result<bool> advance_one_shot();
  Result<bool> advance_two_shot();
  void read(uint32_t index);
  void copy_from(Rank peer, uint32_t index, size_t recv_element);
  void reduce_range(uint32_t index, Range range, size_t stage_element, std::byte* second_output);
  void reduce_slice(uint32_t index);
  void copy_slices(uint32_t index);
  void publish_stage(uint32_t index);
  void ring_if_needed();

  NodeContext& context_;
  const Call& call_;
  const Signature& signature_;
  const uint32_t hash_;  // of the signature
  const ReduceFunction reduce_;
  const StagedChoice choice_;
  const size_t element_bytes_;
  const bool in_blocks_;  // a stage slot holds one piece for every rank
  size_t chunk_elements_;
  uint32_t chunk_count_;
  uint32_t first_epoch_;
  double divisor_ = 1;

  uint32_t staged_ = 0;
  uint32_t reduced_ = 0;
  uint32_t finished_ = 0;
  Rank next_staged_ = 0;   // the first rank not yet seen to have staged the chunk that is due
  Rank next_reduced_ = 0;  // likewise for results
  Rank waiting_for_ = -1;
  bool has_weights_ = false;
  bool unrung_ = false;  // something was published since the last ring
};

}  // namespace gimbal
