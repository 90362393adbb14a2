// A communicator of the C API for the length of a test, with the settings that tests vary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "gimbal/gimbal.h"
#include "tests/support/ranks.h"

namespace gimbal::test {

// Every wait of a test ends by itself: the cases' T, with room for sanitizers on a loaded machine.
inline constexpr int64_t kTimeoutMs = 20'000;

// By their names in gimbal_config_t.algorithm.
inline constexpr const char* kAllReduceAlgorithms[] = {"direct", "ring", "halving_doubling", "double_tree", "all_pairs"};

// A configuration for this rank; the strings of `context` and `algorithm` must outlive its use.
gimbal_config_t rank_config(const RankContext& context);

class Communicator {
 public:
  // Throws std::runtime_error with the library's sentence. algorithm: of all_reduce; empty: the library's choice.
  explicit Communicator(const RankContext& context, const std::string& algorithm = "");
  explicit Communicator(const gimbal_config_t& config);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] gimbal_comm_t get() const { return comm_; }
  [[nodiscard]] int32_t rank() const;
  [[nodiscard]] int32_t size() const;

  // Throws std::runtime_error with the library's sentence.
  void all_reduce(const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_op_t op);

  // Collective: whether all ranks hold the same bytes.
  bool equal_on_all_ranks(std::span<const std::byte> bytes);

 private:
  gimbal_comm_t comm_ = nullptr;
};

// FNV-1a.
uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace gimbal::test
