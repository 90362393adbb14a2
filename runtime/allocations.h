// Memory from gimbal_mem_alloc: segments in which every rank of the node has an equal part, mapped by all.
//
// A *place* names memory of such a part in a way that peers understand: allocation number << 48 | byte offset in the rank's
// part. 0 is no place. Places come from peers' memory and are checked when they are resolved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/status.h"
#include "base/types.h"
#include "transport/shared_segment.h"

namespace gimbal {

class Allocations {
 public:
  // The parts of a new allocation; equal on all ranks because allocation is collective.
  struct Entry {
    std::shared_ptr<SharedSegment> segment;
    size_t part_bytes = 0;  // a multiple of the page size

    [[nodiscard]] size_t parts() const { return segment->bytes() / part_bytes; }
  };

  // rank: within the node.
  explicit Allocations(Rank rank) : rank_(rank) {}

  // The number that the next allocation gets; 0 when 65,535 have been made.
  [[nodiscard]] uint16_t next_number() const { return next_number_; }
  void* add(Entry entry);
  // INVALID_ARGUMENT when the pointer is not the beginning of an allocation.
  Status remove(const void* pointer);

  // 0 when [pointer, pointer + bytes) is not inside one allocation's own part.
  [[nodiscard]] uint64_t place_of(const void* pointer, size_t bytes) const;
  // Null when the place does not hold `bytes` bytes.
  [[nodiscard]] std::byte* resolve(Rank rank, uint64_t place, size_t bytes) const;
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  // Memory in use, this rank's share of it.
  [[nodiscard]] size_t resident_bytes() const;

 private:
  [[nodiscard]] static std::byte* part(const Entry& entry, Rank rank) {
    return entry.segment->data() + static_cast<size_t>(rank) * entry.part_bytes;
  }

  Rank rank_;
  uint16_t next_number_ = 1;
  std::map<uint16_t, Entry> entries_;
};

}  // namespace gimbal
