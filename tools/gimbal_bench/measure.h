// One row of the table: times and checks of one operation, out of place and in place.
#pragma once

#include <optional>

#include "tools/gimbal_bench/collectives.h"
#include "tools/gimbal_bench/options.h"
#include "tools/gimbal_bench/rank.h"

namespace gimbal::bench {

// Of single calls, each timed by itself after a barrier; the slowest rank's time counts.
struct CallTimes {
  double min_us;
  double max_us;
  double mean_us;
  double p50_us;
  double p95_us;
  double p99_us;
  double deviation_us;

  [[nodiscard]] double variation_percent() const { return mean_us > 0 ? 100 * deviation_us / mean_us : 0; }
};

CallTimes summarize(std::vector<double> times_us);

struct Half {
  double time_us;     // of a call in a batch of back-to-back calls
  double algbw_gbps;  // 1e9 bytes per second
  double busbw_gbps;
  CallTimes calls;
  std::optional<size_t> wrong;  // elements, over all ranks and rounds; nothing with -c 0
};

struct Row {
  Operation operation;
  size_t bytes;  // of the full array
  std::optional<Half> out_of_place;
  std::optional<Half> in_place;  // nothing where the collective has none
};

// Collective over the ranks of the benchmark; the same row on all of them.
Result<Row> measure_row(const Options& options, const BenchRank& rank, const Operation& operation);

}  // namespace gimbal::bench
