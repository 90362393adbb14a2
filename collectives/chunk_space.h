// Which rank holds which chunk before and after a collective: the chunk space of schedule.h as functions.
#pragma once

#include <cstdint>

#include "collectives/schedule.h"

namespace gimbal {

// The collective whose schedules this one uses: the _v forms are the plain ones with another chunk table.
Collective schedule_collective(Collective collective);

// Whether values are added on the way.
bool reduces(Collective collective);

// Blocks of the chunk space; 1 where the full vector is not divided among ranks.
uint32_t block_count(Collective collective, Rank nranks);
bool has_blocks(Collective collective);

// Chunks per block that the spec asks for: one per channel and piece.
inline uint32_t lane_count(const CollectiveSpec& spec) { return uint32_t{spec.channels} * spec.pieces; }

class ChunkSpace {
 public:
  // chunk_count must be a multiple of the number of blocks.
  ChunkSpace(const CollectiveSpec& spec, uint32_t chunk_count);

  [[nodiscard]] bool in_input(Rank rank, uint32_t chunk) const;
  [[nodiscard]] bool in_output(Rank rank, uint32_t chunk) const;
  // The rank whose input the chunk's result is; kNoRank when it is the sum over all ranks.
  [[nodiscard]] Rank source(uint32_t chunk) const;

 private:
  [[nodiscard]] Rank block(uint32_t chunk) const { return static_cast<Rank>(chunk / chunks_per_block_); }

  Collective collective_;
  Rank nranks_;
  Rank root_;
  uint32_t chunks_per_block_;
};

}  // namespace gimbal
