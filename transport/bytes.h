// Plain values to and from little-endian bytes.
//
// ByteReader is for bytes that a stranger may have written: it never reads past its span, every length is compared with a limit
// and with what is left before memory is taken, and after the first fault it returns zeros; ask ok() once at the end.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gimbal {

using Bytes = std::vector<std::byte>;

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ByteWriter {
 public:
  ByteWriter& u8(uint8_t value) { return integer(value, 1); }
  ByteWriter& u16(uint16_t value) { return integer(value, 2); }
  ByteWriter& u32(uint32_t value) { return integer(value, 4); }
  ByteWriter& u64(uint64_t value) { return integer(value, 8); }
  ByteWriter& i64(int64_t value) { return u64(static_cast<uint64_t>(value)); }
  ByteWriter& raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  // A length in 32 bits, then the bytes.
  ByteWriter& text(std::string_view text) { return u32(static_cast<uint32_t>(text.size())).raw(as_bytes(text)); }

  Bytes take() { return std::move(bytes_); }

 private:
  ByteWriter& integer(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }
  Bytes bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  uint8_t u8() { return static_cast<uint8_t>(integer(1)); }
  uint16_t u16() { return static_cast<uint16_t>(integer(2)); }
  uint32_t u32() { return static_cast<uint32_t>(integer(4)); }
  uint64_t u64() { return integer(8); }
  int64_t i64() { return static_cast<int64_t>(integer(8)); }
  template <size_t kBytes>
  std::array<std::byte, kBytes> array() {
    std::array<std::byte, kBytes> value = {};
    const std::span<const std::byte> bytes = take(kBytes);
    std::copy(bytes.begin(), bytes.end(), value.begin());
    return value;
  }
  // A number of things in 8 bits.
  size_t count(size_t limit) {
    const size_t things = u8();
    if (things > limit) ok_ = false;
    return ok_ ? things : 0;
  }
  std::string text(size_t limit) {
    const uint32_t bytes = u32();
    if (bytes > limit) ok_ = false;
    return to_text(take(bytes));
  }

  [[nodiscard]] bool ok() const { return ok_; }
  // Everything was there and nothing is left over.
  [[nodiscard]] bool finished() const { return ok_ && left_.empty(); }

 private:
  // Empty once something was missing.
  std::span<const std::byte> take(size_t bytes) {
    if (!ok_ || bytes > left_.size()) {
      ok_ = false;
      return {};
    }
    const std::span<const std::byte> taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }
  uint64_t integer(size_t bytes) {
    uint64_t value = 0;
    const std::span<const std::byte> taken = take(bytes);
    for (size_t i = 0; i < taken.size(); ++i) value |= std::to_integer<uint64_t>(taken[i]) << (8 * i);
    return value;
  }
  std::span<const std::byte> left_;
  bool ok_ = true;
};

}  // namespace gimbal
