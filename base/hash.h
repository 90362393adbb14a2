// A stable 64-bit hash of text: equal in every process and build (FNV-1a).
#pragma once

#include <cstdint>
#include <string_view>

namespace gimbal {

constexpr uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace gimbal
