// PowerSGD (Vogels, Karimireddy, Jaggi: arXiv 1905.13727) as a codec of the C API: one step of power iteration.
//
//   round 0   P = M Q, added over ranks; then its columns are made orthonormal
//   round 1   Q = M^T P, added over ranks; the result is P Q^T, and Q begins the next step
//
// M is a rank's share of the mean and what it has not sent: M - P (M^T P)^T, its own part, is carried.
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/entry.h"
#include "base/hash.h"
#include "base/status.h"
#include "gimbal/gradsync.h"

namespace gimbal::gradsync {
namespace {

constexpr int32_t kMostRank = 64;

// In many sums side by side, so that the compiler may make vectors of them.
float dot(std::span<const float> a, std::span<const float> b) {
  constexpr size_t kSums = 16;
  std::array<float, kSums> sums = {};
  size_t i = 0;
  for (; i + kSums <= a.size(); i += kSums) {
    for (size_t k = 0; k < kSums; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  float sum = 0;
  for (const float each : sums) sum += each;
  return sum;
}

// to += factor * from.
void add(std::span<float> to, float factor, std::span<const float> from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

// Columns one after the other: column k is at k * height.
class Columns {
 public:
  Columns(size_t height, size_t count) : height_(height), values_(height * count) {}
  [[nodiscard]] size_t count() const { return values_.size() / height_; }
  [[nodiscard]] std::span<float> operator[](size_t k) { return std::span(values_).subspan(k * height_, height_); }
  [[nodiscard]] std::vector<float>& values() { return values_; }

 private:
  size_t height_;
  std::vector<float> values_;
};

class Factors {
 public:
  Factors(const gimbal_codec_tensor_t& tensor, size_t rank)
      : rows_(tensor.rows), columns_(tensor.columns), p_(rows_, rank), q_(columns_, rank), seed_(hash_text(tensor.name)) {
    for (size_t k = 0; k < rank; ++k) begin_anew(k);
  }

  [[nodiscard]] size_t value_count() const { return rows_ * columns_; }
  [[nodiscard]] size_t message_floats(int32_t round) const { return (round == 0 ? rows_ : columns_) * p_.count(); }
  [[nodiscard]] std::vector<float>& carried() { return q_.values(); }

  void encode_p(std::span<const float> values, std::span<float> message) {
    for (size_t i = 0; i < rows_; ++i) {
      const auto row = values.subspan(i * columns_, columns_);
      for (size_t k = 0; k < p_.count(); ++k) message[k * rows_ + i] = dot(row, q_[k]);
    }
  }
  void decode_p(std::span<const float> sum) {
    std::copy(sum.begin(), sum.end(), p_.values().begin());
    for (size_t k = 0; k < p_.count(); ++k) make_orthonormal(k);
  }
  void encode_q(std::span<float> values, std::span<float> message) {
    std::fill(message.begin(), message.end(), 0.0F);
    const auto part = [&](size_t k) { return message.subspan(k * columns_, columns_); };
    for (size_t i = 0; i < rows_; ++i) {
      const auto row = values.subspan(i * columns_, columns_);
      for (size_t k = 0; k < p_.count(); ++k) add(part(k), p_[k][i], row);
    }
    for (size_t i = 0; i < rows_; ++i) {
      const auto row = values.subspan(i * columns_, columns_);
      for (size_t k = 0; k < p_.count(); ++k) add(row, -p_[k][i], part(k));
    }
  }
  void decode_q(std::span<const float> sum, std::span<float> result) {
    std::copy(sum.begin(), sum.end(), q_.values().begin());
    std::fill(result.begin(), result.end(), 0.0F);
    for (size_t i = 0; i < rows_; ++i) {
      const auto row = result.subspan(i * columns_, columns_);
      for (size_t k = 0; k < p_.count(); ++k) add(row, p_[k][i], q_[k]);
    }
    // A direction that has vanished would stay away for ever. The sums are equal on all ranks, so this is too.
    for (size_t k = 0; k < q_.count(); ++k) {
      if (const float length = dot(q_[k], q_[k]); !(length > 0) || !std::isfinite(length)) begin_anew(k);
    }
  }

 private:
  // Integers of a generator whose sequence the C++ standard defines: equal on all ranks.
  void begin_anew(size_t k) {
    std::mt19937 random(static_cast<uint32_t>(seed_ + k));
    for (float& value : q_[k]) value = static_cast<float>(random()) * 0x1p-31F - 1;
  }
  // Against the columns before it. A column that these already span becomes zero.
  void make_orthonormal(size_t k) {
    const auto column = p_[k];
    const float before = std::sqrt(dot(column, column));
    for (size_t other = 0; other < k; ++other) add(column, -dot(column, p_[other]), p_[other]);
    const float length = std::sqrt(dot(column, column));
    constexpr float kLost = 1e-5F;  // what is left of float32's precision is noise
    const float factor = length > before * kLost ? 1 / length : 0.0F;
    for (float& value : column) value *= factor;
  }

  size_t rows_;
  size_t columns_;
  Columns p_;
  Columns q_;
  uint64_t seed_;
};

void* open(const gimbal_codec_t* codec, const gimbal_codec_tensor_t* tensor) {
  const auto rank = static_cast<size_t>(codec->setting);
  // Two exchanges instead of one must save at least half.
  if (2 * (tensor->rows + tensor->columns) * rank > tensor->rows * tensor->columns) return nullptr;
  return new Factors(*tensor, rank);
}

void close(void* state) { delete static_cast<Factors*>(state); }

size_t message_bytes(const void* state, int32_t round) {
  return static_cast<const Factors*>(state)->message_floats(round) * sizeof(float);
}

void encode(void* state, int32_t round, float* values, void* message) {
  auto& factors = *static_cast<Factors*>(state);
  const std::span all(values, factors.value_count());
  const std::span out(static_cast<float*>(message), factors.message_floats(round));
  if (round == 0) {
    factors.encode_p(all, out);
  } else {
    factors.encode_q(all, out);
  }
}

void decode(void* state, int32_t round, const void* messages, size_t /*stride*/, float* result) {
  auto& factors = *static_cast<Factors*>(state);
  const std::span sum(static_cast<const float*>(messages), factors.message_floats(round));
  if (round == 0) {
    factors.decode_p(sum);
  } else {
    factors.decode_q(sum, {result, factors.value_count()});
  }
}

void* memory(void* state, size_t* bytes) {
  std::vector<float>& carried = static_cast<Factors*>(state)->carried();
  *bytes = carried.size() * sizeof(float);
  return carried.data();
}

}  // namespace
}  // namespace gimbal::gradsync

gimbal_status_t gimbal_codec_power_sgd(int32_t rank, gimbal_codec_t* codec) {
  namespace gradsync = gimbal::gradsync;
  return gimbal::enter([&]() -> gimbal::Status {
    if (codec == nullptr) return {gimbal::Code::kInvalidArgument, "codec is NULL"};
    if (rank < 1 || rank > gradsync::kMostRank) {
      return {gimbal::Code::kInvalidArgument,
              "rank is " + std::to_string(rank) + "; allowed: 1 to " + std::to_string(gradsync::kMostRank)};
    }
    *codec = {sizeof *codec,
              "",
              static_cast<double>(rank),
              nullptr,
              2,
              GIMBAL_CODEC_SUM,
              gradsync::open,
              gradsync::close,
              gradsync::message_bytes,
              gradsync::encode,
              gradsync::decode,
              gradsync::memory};
    std::snprintf(codec->name, sizeof codec->name, "power_sgd rank %d", rank);
    return {};
  });
}
