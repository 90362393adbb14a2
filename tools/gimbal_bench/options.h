// What gimbal-bench was asked to do: nccl-tests' options and Gimbal's own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tools/gimbal_bench/collectives.h"

namespace gimbal::bench {

// How the ranks' times become one (-a).
enum class Average : uint8_t { kRankZero = 0, kMean = 1, kMinimum = 2, kMaximum = 3 };

struct Options {
  Kind kind = Kind::kAllReduce;
  size_t min_bytes = size_t{32} << 20;
  size_t max_bytes = size_t{32} << 20;
  size_t step_bytes = size_t{1} << 20;
  size_t factor = 0;  // 0: sizes grow by step_bytes
  size_t iterations = 20;
  size_t warmup = 1;
  size_t aggregate = 1;  // calls per iteration, in one group
  size_t cycles = 1;     // 0: for ever
  size_t check_rounds = 1;
  std::vector<DType> dtypes = {DType::kFloat32};
  std::vector<ReduceOp> ops = {ReduceOp::kSum};
  std::optional<Rank> root = 0;  // nothing: every rank in turn
  Average average = Average::kMean;
  Rank ranks = 1;  // -g times -t: ranks to start here
  bool threads = false;
  bool per_iteration = false;
  bool timestamps = false;
  bool json_lines = false;
  bool registered = false;
  bool on_device = false;     // --memory cuda
  size_t graph_launches = 0;  // of the iterations captured into a graph; 0: no graph
  bool deterministic = false;
  int64_t timeout_ms = 0;  // of one call; 0: the library's
  std::string algorithm;
  std::string transport;
  std::string json_path;
};

// "host", "registered" or "cuda".
const char* memory_name(const Options& options);

// From the command line. Exits for --help and --version. The error is one line that names the option, its value and what is
// allowed.
Result<Options> parse_options(int argc, char** argv);

}  // namespace gimbal::bench
