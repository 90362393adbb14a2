#include "collectives/symbolic.h"

#include "base/status.h"
#include "collectives/order_hash.h"

namespace gimbal {

// Fixed, so that a failure can be repeated; as good as random to schedules, which know nothing of it.
uint64_t input_weight(Rank rank, uint32_t chunk) { return mix64(uint64_t{static_cast<uint32_t>(rank)} << 32 | chunk); }

Symbol input_symbol(Rank rank, uint32_t chunk) { return {input_weight(rank, chunk), order_of_input(rank)}; }

Symbol add(const Symbol& a, const Symbol& b) { return {a.weight + b.weight, order_of_sum(a.order, b.order)}; }

SymbolicMemory::SymbolicMemory(const CollectiveSpec& spec, Rank rank, uint32_t chunk_count)
    : space_(spec, chunk_count), reduces_(reduces(spec.collective)), rank_(rank), chunk_count_(chunk_count) {}

const char* SymbolicMemory::unreadable(BufferId buffer, uint32_t chunk, Payload payload) const {
  switch (buffer) {
    case BufferId::kInput:
      if (!space_.in_input(rank_, chunk)) return "the rank has no such input";
      if (written(output_, chunk)) return "the input was overwritten by the output (in place they are one)";
      return payload == (reduces_ ? Payload::kRaw : Payload::kFinal) ? nullptr : "input is not of this kind";
    case BufferId::kScratch:
      if (!written(scratch_, chunk)) return "scratch is read before it is written";
      return payload == Payload::kPartial ? nullptr : "scratch is partial";
    case BufferId::kOutput:
      if (!written(output_, chunk)) return "output is read before it is written";
      return payload == Payload::kFinal ? nullptr : "output is final";
    case BufferId::kNone:
      return "there is no buffer";
  }
  return "there is no such buffer";
}

Symbol SymbolicMemory::read(BufferId buffer, uint32_t chunk) const {
  if (buffer == BufferId::kInput) return input_symbol(rank_, chunk);
  return buffer == BufferId::kScratch ? scratch_[chunk].symbol : output_[chunk].symbol;
}

void SymbolicMemory::write(BufferId buffer, uint32_t chunk, const Symbol& symbol) {
  if (buffer == BufferId::kNone) return;
  GIMBAL_DCHECK(buffer != BufferId::kInput);
  std::vector<Cell>& cells = buffer == BufferId::kOutput ? output_ : scratch_;
  if (cells.empty()) cells.resize(chunk_count_);
  cells[chunk] = {symbol, true};
}

}  // namespace gimbal
