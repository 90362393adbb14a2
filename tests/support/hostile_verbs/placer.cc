#include "tests/support/hostile_verbs/placer.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace gimbal::hostile {
namespace {

constexpr size_t kWord = 8;

// Aligned words are stored whole, as every adapter does, and as atomics: a user may watch one, but learns nothing of other
// words.
void store(std::byte* to, std::span<const std::byte> bytes) {
  const auto misaligned = [&] { return reinterpret_cast<uintptr_t>(to) % kWord != 0; };
  while (!bytes.empty()) {
    if (misaligned() || bytes.size() < kWord) {
      *to++ = bytes.front();
      bytes = bytes.subspan(1);
      continue;
    }
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kWord);
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(to)).store(word, std::memory_order_relaxed);
    to += kWord;
    bytes = bytes.subspan(kWord);
  }
}

// The length of the first of `pieces` pieces: up to an aligned address.
size_t cut(const std::byte* to, size_t bytes, uint64_t pieces, Dice& dice) {
  if (pieces <= 1 || bytes <= kWord) return bytes;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(to) + 1 + dice.below(2 * bytes / pieces) + kWord - 1) & ~(kWord - 1);
  return std::min(bytes, end - reinterpret_cast<uintptr_t>(to));
}

}  // namespace

void Placer::place(uint64_t message, std::byte* to, std::span<const std::byte> bytes, const Turn& turn) {
  if (!context_.hostility.hostile()) {
    store(to, bytes);
    return;
  }
  constexpr uint64_t kMostPieces = 6;
  constexpr uint64_t kLongestDelayNs = 300'000;
  for (uint64_t pieces = 1 + dice_.below(kMostPieces); !bytes.empty(); --pieces) {
    const size_t length = cut(to, bytes.size(), pieces, dice_);
    pieces_.push_back({message, to, {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)}});
    to += length;
    bytes = bytes.subspan(length);
  }
  last_due_ns_ = turn.now_ns + static_cast<int64_t>(dice_.below(kLongestDelayNs));
}

void Placer::settle_through(uint64_t message) {
  std::shuffle(pieces_.begin(), pieces_.end(), dice_.engine());
  const auto rest =
      std::partition(pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.message <= message; });
  std::for_each(pieces_.begin(), rest, [](const Piece& piece) { store(piece.to, piece.bytes); });
  pieces_.erase(pieces_.begin(), rest);
}

void Placer::settle() { settle_through(UINT64_MAX); }

void Placer::advance(Turn& turn) {
  if (pieces_.empty()) return;
  if (last_due_ns_ <= turn.now_ns) {
    settle();
    return;
  }
  turn.at(last_due_ns_);
  for (uint64_t count = dice_.below(1 + pieces_.size()); count > 0; --count) {
    std::swap(pieces_[dice_.below(pieces_.size())], pieces_.back());
    store(pieces_.back().to, pieces_.back().bytes);
    pieces_.pop_back();
  }
}

}  // namespace gimbal::hostile
