// Where every chunk of a schedule lies: elements and place, per buffer, by the chunk-space rules of collectives/schedule.h.
//
// A chunk's size depends only on what all ranks agree on, so that both sides of a message know its bytes without a header; in
// the v-forms a rank knows only the blocks that it sends or receives. Places are this rank's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "collectives/schedule.h"

namespace gimbal {

// What a call says about its buffers. Counts and displacements are in elements.
struct BufferLayout {
  Collective collective = Collective::kAllReduce;
  Rank nranks = 1;
  Rank rank = 0;
  Rank root = 0;
  size_t count = 0;  // the vector, or one block where there are blocks; unused by the v-forms
  // The v-forms, by rank (all_gather_v: send_counts and send_displacements are unused). Empty displacements: packed.
  std::span<const size_t> send_counts = {};
  std::span<const size_t> send_displacements = {};
  std::span<const size_t> recv_counts = {};
  std::span<const size_t> recv_displacements = {};
};

class ChunkTable {
 public:
  // INTERNAL when chunk_count does not fit the collective's blocks, INVALID_ARGUMENT when the v-form's arrays do not fit.
  static Result<ChunkTable> make(const BufferLayout& layout, size_t element_bytes, uint32_t chunk_count);

  [[nodiscard]] size_t count(uint32_t chunk) const;  // elements; 0 for a v-form's block that is not this rank's
  // Elements from the start of kInput or kOutput; nothing when this rank's buffer does not hold the chunk.
  [[nodiscard]] std::optional<size_t> offset(BufferId buffer, uint32_t chunk) const;
  [[nodiscard]] size_t largest_count() const { return largest_count_; }
  // Whether a run of chunks that a buffer holds is one piece of memory on every rank.
  [[nodiscard]] bool runs_are_contiguous() const { return runs_are_contiguous_; }

 private:
  ChunkTable() = default;
  [[nodiscard]] size_t block_count(size_t block) const;
  [[nodiscard]] std::optional<size_t> block_offset(BufferId buffer, size_t block) const;
  [[nodiscard]] size_t first_element(size_t block, size_t part) const;  // within its block
  Status take_counts(const BufferLayout& layout);
  [[nodiscard]] size_t find_largest_count() const;

  Collective collective_ = Collective::kAllReduce;
  size_t nranks_ = 1;
  size_t rank_ = 0;
  size_t root_ = 0;
  size_t count_ = 0;
  size_t element_bytes_ = 1;
  size_t chunks_per_block_ = 1;
  size_t block_total_ = 1;
  size_t largest_count_ = 0;
  bool runs_are_contiguous_ = true;
  // The v-forms, by rank; empty otherwise.
  std::vector<size_t> send_counts_, send_offsets_, recv_counts_, recv_offsets_;
};

}  // namespace gimbal
