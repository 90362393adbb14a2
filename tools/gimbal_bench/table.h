// The text that gimbal-bench prints: nccl-tests' head, columns and foot. Scripts that read those find their fields at the same
// places (out-of-place busbw is field 8, in-place busbw field 12); what Gimbal adds is at the end of the row.
#pragma once

#include <string>
#include <vector>

#include "tools/gimbal_bench/measure.h"
#include "tools/gimbal_bench/options.h"
#include "tools/gimbal_bench/rank.h"

namespace gimbal::bench {

// What all rows together say.
struct Summary {
  size_t rows = 0;
  size_t halves = 0;
  double busbw_sum = 0;
  size_t wrong = 0;
  size_t host_bytes = 0;  // of the communicator, at the rank with most

  void add(const Row& row);
  [[nodiscard]] double average_busbw() const { return halves == 0 ? 0 : busbw_sum / static_cast<double>(halves); }
};

// how: what the library says of an all-reduce of the largest size.
std::string format_head(const Options& options, const std::vector<RankPlace>& places, const std::string& how);
std::string format_row(const Options& options, const Row& row);
std::string format_foot(const Options& options, const Summary& summary);

// "sum" and "0", or "none" and "-1" for collectives without.
std::string shown_op(const Operation& operation);
Rank shown_root(const Operation& operation);

}  // namespace gimbal::bench
