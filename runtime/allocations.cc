#include "runtime/allocations.h"

namespace gimbal {
namespace {

constexpr int kOffsetBits = 48;
constexpr uint64_t kOffsetMask = (uint64_t{1} << kOffsetBits) - 1;

}  // namespace

void* Allocations::add(Entry entry) {
  std::byte* const own = part(entry, rank_);
  entries_.emplace(next_number_++, std::move(entry));
  return own;
}

Status Allocations::remove(const void* pointer) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (part(entry->second, rank_) == pointer) {
      entries_.erase(entry);
      return {};
    }
  }
  return {Code::kInvalidArgument, "the pointer is not the beginning of memory from gimbal_mem_alloc on this communicator"};
}

uint64_t Allocations::place_of(const void* pointer, size_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  for (const auto& [number, entry] : entries_) {
    const auto begin = reinterpret_cast<uintptr_t>(part(entry, rank_));
    if (address < begin || address - begin > entry.part_bytes || bytes > entry.part_bytes - (address - begin)) continue;
    return static_cast<uint64_t>(number) << kOffsetBits | (address - begin);
  }
  return 0;
}

std::byte* Allocations::resolve(Rank rank, uint64_t place, size_t bytes) const {
  const auto entry = entries_.find(static_cast<uint16_t>(place >> kOffsetBits));
  if (entry == entries_.end()) return nullptr;
  const uint64_t offset = place & kOffsetMask;
  if (offset > entry->second.part_bytes || bytes > entry->second.part_bytes - offset) return nullptr;
  return part(entry->second, rank) + offset;
}

size_t Allocations::resident_bytes() const {
  size_t total = 0;
  for (const auto& [number, entry] : entries_) total += entry.segment->resident_bytes() / entry.parts();
  return total;
}

}  // namespace gimbal
