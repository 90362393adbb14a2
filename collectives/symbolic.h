// The memory of one rank in the verifier: what each chunk of its buffers stands for, instead of numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/chunk_space.h"
#include "collectives/schedule.h"

namespace gimbal {

// A sum of inputs: `weight` tells which ones (each input has a random weight; sums add), `order` how it was added.
struct Symbol {
  uint64_t weight;
  uint64_t order;
};

uint64_t input_weight(Rank rank, uint32_t chunk);
Symbol input_symbol(Rank rank, uint32_t chunk);
Symbol add(const Symbol& a, const Symbol& b);

class SymbolicMemory {
 public:
  SymbolicMemory(const CollectiveSpec& spec, Rank rank, uint32_t chunk_count);

  // Why the chunk cannot be read now, or null. `payload` is what the reader takes it for: input is raw (final where nothing is
  // added), scratch partial, output final. Input that was overwritten by the output of the same chunk is gone: in place they
  // are the same memory.
  [[nodiscard]] const char* unreadable(BufferId buffer, uint32_t chunk, Payload payload) const;
  [[nodiscard]] Symbol read(BufferId buffer, uint32_t chunk) const;
  void write(BufferId buffer, uint32_t chunk, const Symbol& symbol);

  [[nodiscard]] bool has_output(uint32_t chunk) const { return written(output_, chunk); }

 private:
  struct Cell {
    Symbol symbol;
    bool written;
  };
  static bool written(const std::vector<Cell>& cells, uint32_t chunk) { return !cells.empty() && cells[chunk].written; }

  ChunkSpace space_;
  bool reduces_;
  Rank rank_;
  uint32_t chunk_count_;
  std::vector<Cell> output_;   // empty until written for the first time
  std::vector<Cell> scratch_;  // likewise
};

}  // namespace gimbal
