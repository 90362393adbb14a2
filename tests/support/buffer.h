// A buffer for an operation, of ordinary or of zero-copy memory, with guard bytes around the part in use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/communicator.h"

namespace gimbal::test {

enum class MemoryKind : uint8_t {
  kOrdinary,
  kRegistered,  // gimbal_mem_alloc
};

class Buffer {
 public:
  // Collective for registered memory, which is freed with the communicator. Throws std::runtime_error.
  Buffer(Communicator& communicator, MemoryKind kind, size_t capacity_bytes);

  // The first `count` elements behind the front guard; what is around them is filled with the guard pattern.
  template <typename T>
  std::span<T> place(size_t count) {
    used_bytes_ = count * sizeof(T);
    std::fill(memory_.begin(), memory_.begin() + kGuardBytes, kGuard);
    std::fill_n(memory_.begin() + static_cast<ptrdiff_t>(kGuardBytes + used_bytes_), kGuardBytes, kGuard);
    return {reinterpret_cast<T*>(memory_.data() + kGuardBytes), count};
  }

  [[nodiscard]] bool guards_intact() const {
    const auto is_guard = [](std::byte byte) { return byte == kGuard; };
    const auto back = memory_.subspan(kGuardBytes + used_bytes_, kGuardBytes);
    return std::all_of(memory_.begin(), memory_.begin() + kGuardBytes, is_guard) &&
           std::all_of(back.begin(), back.end(), is_guard);
  }

 private:
  static constexpr size_t kGuardBytes = 64;  // a vector register of any CPU: an overrun by one store is seen
  static constexpr std::byte kGuard{0xA5};

  std::vector<std::byte> ordinary_;
  std::span<std::byte> memory_;
  size_t used_bytes_ = 0;
};

}  // namespace gimbal::test
