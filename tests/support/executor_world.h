// All ranks of a collective in one thread: each rank's schedule, plan, guarded buffers and executor over a loopback mesh,
// stepped in turn or in a seeded random order, until all are done, one fails, or nobody can move.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "collectives/schedule.h"
#include "runtime/cpu_executor.h"
#include "runtime/plan.h"
#include "tests/support/mesh.h"

namespace gimbal::test {

// Memory between two zones of known bytes.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes = 0) : bytes_(bytes), memory_(bytes + 2 * kGuardBytes, kGuard) {}
  [[nodiscard]] std::byte* data() { return memory_.data() + kGuardBytes; }
  [[nodiscard]] const std::byte* data() const { return memory_.data() + kGuardBytes; }
  [[nodiscard]] size_t size() const { return bytes_; }
  [[nodiscard]] std::span<std::byte> bytes() { return {data(), bytes_}; }
  [[nodiscard]] bool is_intact() const {
    const auto is_guard = [](std::byte byte) { return byte == kGuard; };
    return std::all_of(memory_.begin(), memory_.begin() + kGuardBytes, is_guard) &&
           std::all_of(memory_.end() - kGuardBytes, memory_.end(), is_guard);
  }

 private:
  static constexpr size_t kGuardBytes = 64;
  static constexpr std::byte kGuard{0xa5};
  size_t bytes_;
  std::vector<std::byte> memory_;
};

struct WorldRank {
  Plan plan;
  GuardedBuffer input, output, scratch;
  bool in_place = false;  // `output` holds both, at these bytes
  size_t in_place_offset = 0;
  size_t in_place_output_offset = 0;
  double weight = 1;
  double divisor = 1;
  uint64_t tag = 7;
  CpuExecutor executor;

  [[nodiscard]] std::byte* input_data() { return in_place ? output.data() + in_place_offset : input.data(); }
  [[nodiscard]] std::byte* output_data() { return output.data() + in_place_output_offset; }
};

class ExecutorWorld {
 public:
  ExecutorWorld(Mesh& mesh, std::vector<std::unique_ptr<WorldRank>> ranks) : mesh_(mesh), ranks_(std::move(ranks)) {}

  WorldRank& rank(Rank rank) { return *ranks_[static_cast<size_t>(rank)]; }
  [[nodiscard]] size_t size() const { return ranks_.size(); }

  Status bind(size_t i) {
    WorldRank& rank = *ranks_[i];
    Binding binding;
    binding.plan = &rank.plan;
    binding.input = rank.input_data();
    binding.output = rank.output_data();
    binding.scratch = rank.scratch.bytes();
    binding.endpoints = mesh_.endpoints(static_cast<Rank>(i));
    binding.tag = rank.tag;
    binding.weight = rank.weight;
    binding.divisor = rank.divisor;
    return rank.executor.bind(binding);
  }

  // The first rank's error, or INTERNAL naming who waits for whom when nobody can move.
  Status run(std::optional<uint64_t> seed = std::nullopt) {
    for (size_t i = 0; i < ranks_.size(); ++i) RETURN_IF_ERROR(bind(i));
    std::mt19937_64 random(seed.value_or(0));
    std::vector<bool> done(ranks_.size(), false);
    for (;;) {
      bool moved = false;
      for (size_t turn = 0; turn < ranks_.size(); ++turn) {
        const size_t i = seed ? random() % ranks_.size() : turn;
        RETURN_IF_ERROR(step(i, done, moved));
      }
      if (std::all_of(done.begin(), done.end(), [](bool value) { return value; })) return check_guards();
      if (moved) continue;
      // A random round may have missed those who can move.
      for (size_t i = 0; i < ranks_.size(); ++i) RETURN_IF_ERROR(step(i, done, moved));
      if (!moved) return deadlock(done);
    }
  }

 private:
  Status step(size_t i, std::vector<bool>& done, bool& moved) {
    if (done[i]) return {};
    CpuExecutor& executor = ranks_[i]->executor;
    const uint64_t before = executor.slices();
    ASSIGN_OR_RETURN(const Progress progress, executor.progress());
    done[i] = progress == Progress::kDone;
    moved |= done[i] || executor.slices() != before;
    return {};
  }

  Status check_guards() {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      for (const GuardedBuffer* buffer : {&ranks_[i]->input, &ranks_[i]->output, &ranks_[i]->scratch}) {
        if (!buffer->is_intact()) return Status(Code::kInternal, "rank " + std::to_string(i) + " wrote beyond a buffer");
      }
    }
    return {};
  }

  Status deadlock(const std::vector<bool>& done) {
    std::string text = "nobody can move:";
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (done[i]) continue;
      text += " rank " + std::to_string(i);
      if (const auto blocked = ranks_[i]->executor.blocked()) {
        text += " in step " + std::to_string(blocked->schedule_step) + (blocked->sending ? " sends to " : " waits for ") +
                std::to_string(blocked->peer) + ",";
      }
    }
    return Status(Code::kInternal, text);
  }

  Mesh& mesh_;
  std::vector<std::unique_ptr<WorldRank>> ranks_;
};

}  // namespace gimbal::test
