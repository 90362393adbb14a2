#include "transport/job_key.h"

#include <sodium.h>

#include <algorithm>

#include "transport/bytes.h"

namespace gimbal {
namespace {

static_assert(crypto_auth_BYTES == sizeof(Proof) && crypto_auth_KEYBYTES == sizeof(Proof));

template <typename Span>
const unsigned char* raw(const Span& bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Chooses libsodium's random source; later calls return at once. It fails only on a system without any random source, where
// randombytes_buf stops the program rather than give predictable bytes.
void initialize() { [[maybe_unused]] const int result = sodium_init(); }

}  // namespace

Nonce random_nonce() {
  initialize();
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), raw(bytes), bytes.size());
  text.pop_back();
  return text;
}

std::string hex_digest(std::string_view text) {
  initialize();
  Nonce digest;
  crypto_generichash(reinterpret_cast<unsigned char*>(digest.data()), digest.size(), raw(text), text.size(), nullptr, 0);
  return to_hex(digest);
}

JobKey::JobKey(std::string_view secret) {
  initialize();
  crypto_generichash(reinterpret_cast<unsigned char*>(key_.data()), key_.size(), raw(secret), secret.size(), nullptr, 0);
}

Nonce JobKey::id() const {
  const Proof digest = prove(as_bytes("the job's name"));
  Nonce id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

JobKey JobKey::derive(std::span<const std::byte> context) const { return JobKey(prove(context)); }

Proof JobKey::prove(std::span<const std::byte> message) const {
  Proof proof;
  crypto_auth(reinterpret_cast<unsigned char*>(proof.data()), raw(message), message.size(), raw(key_));
  return proof;
}

bool JobKey::verify(std::span<const std::byte> message, const Proof& proof) const {
  return crypto_auth_verify(raw(proof), raw(message), message.size(), raw(key_)) == 0;
}

}  // namespace gimbal
