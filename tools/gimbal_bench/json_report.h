// The results as JSON: nccl-tests' format 3 (-J), but without the environment, which may hold secrets; and one object a row.
#pragma once

#include <string>
#include <vector>

#include "tools/gimbal_bench/table.h"

namespace gimbal::bench {

std::string json_line(const Options& options, Rank ranks, const Row& row);

struct Report {
  std::vector<std::string> arguments;
  std::string start_time;  // ISO 8601, UTC
  std::vector<RankPlace> places;
  std::vector<Row> rows;
  Summary summary;
};

std::string utc_now();
Status write_report(const Options& options, const Report& report);

}  // namespace gimbal::bench
