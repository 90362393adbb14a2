// The job's secret as a key for message authentication (libsodium's crypto_auth), and random names and nonces.
//
// The key itself never travels: each side proves that it has it over the other's fresh nonce.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace gimbal {

using Proof = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 16>;

Nonce random_nonce();
std::string to_hex(std::span<const std::byte> bytes);
// 32 hexadecimal digits, equal for equal text.
std::string hex_digest(std::string_view text);

class JobKey {
 public:
  // Any text; the empty one is the key of jobs without a secret.
  explicit JobKey(std::string_view secret);

  // What a connection says openly: equal for equal keys, and useless for finding the key.
  [[nodiscard]] Nonce id() const;

  // A key for one purpose, bound to its context.
  [[nodiscard]] JobKey derive(std::span<const std::byte> context) const;
  [[nodiscard]] Proof prove(std::span<const std::byte> message) const;
  // In constant time.
  [[nodiscard]] bool verify(std::span<const std::byte> message, const Proof& proof) const;

 private:
  explicit JobKey(const Proof& key) : key_(key) {}
  Proof key_;
};

}  // namespace gimbal
