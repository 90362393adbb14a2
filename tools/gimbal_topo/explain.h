// gimbal-topo explain: which algorithm the library takes at each size, what that is predicted to cost, and why
// (docs/tuning.md).
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/explanation.h"

namespace gimbal {

struct ExplainCommand {
  std::string collective = "all_reduce";
  std::string ranks;            // empty: one per allowed CPU, at least 2
  std::string nodes = "1";      // machines like this one
  std::string bytes = "8..1G";  // one size, or two with .. between them
  std::string datatype = "float";
  std::string load;  // a machine from a file
  bool json = false;
};

// What was asked for, checked.
struct ExplainRequest {
  Collective collective = Collective::kAllReduce;
  DType dtype = DType::kFloat32;
  Rank ranks = 2;
  Rank nodes = 1;
  std::vector<size_t> sizes;
};

// INVALID_ARGUMENT names the option, its value and what is allowed. allowed_cpus: of this process.
Result<ExplainRequest> check_request(const ExplainCommand& command, size_t allowed_cpus);

// "8..1G" as every power of two between, both ends included; "64K" as itself.
Result<std::vector<size_t>> parse_sizes(const std::string& text);

struct ExplainedSize {
  size_t bytes = 0;
  Explanation explanation;
};

std::string explain_table(const ExplainRequest& request, const std::string& origin, const std::vector<ExplainedSize>& sizes);
std::string explain_json(const ExplainRequest& request, const std::string& origin, const std::vector<ExplainedSize>& sizes);

// The text to print.
Result<std::string> explain(const ExplainCommand& command);

}  // namespace gimbal
