// One collective with everything that may vary, its inputs and its expected outputs, ready to run in an ExecutorWorld.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/algorithm.h"
#include "tests/support/executor_world.h"
#include "tests/support/values.h"

namespace gimbal::test {

// The element that a rank puts at a place of its input.
using InputFunction = std::function<double(Rank rank, size_t index)>;

struct CollectiveCase {
  const Algorithm* algorithm = nullptr;
  Rank nranks = 1;
  size_t count = 0;
  Rank root = 0;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint8_t channels = 1;
  Fusion fusion = Fusion::kFused;
  bool in_place = false;
  size_t slice_bytes = 64;
  size_t window = 2;  // the plan's
  bool element_partials = false;
  std::vector<double> weights;  // by rank; empty: not weighted
  double divisor = 1;
  std::optional<uint64_t> seed;  // of a random order of progress

  [[nodiscard]] Collective collective() const { return algorithm->collective; }
  [[nodiscard]] CollectiveSpec spec() const {
    CollectiveSpec result;
    result.collective = collective();
    result.nranks = nranks;
    result.root = root;
    result.channels = channels;
    return result;
  }
};

std::string describe(const CollectiveCase& c);

struct BufferSizes {
  size_t input = 0;
  size_t output = 0;
};

BufferSizes buffer_sizes(const CollectiveCase& c, Rank rank);

// What a rank's output must hold at a place.
double expected_output(const CollectiveCase& c, const InputFunction& input, Rank rank, size_t index);

Result<std::unique_ptr<WorldRank>> make_world_rank(const CollectiveCase& c, Rank rank, const InputFunction& input);

// Runs the case; the outputs of all ranks, by rank.
Result<std::vector<std::vector<std::byte>>> run_case(const CollectiveCase& c, const InputFunction& input);

// Empty when every element of every rank is as expected, else the first that is not.
std::string find_fault(const CollectiveCase& c, const InputFunction& input);

}  // namespace gimbal::test
