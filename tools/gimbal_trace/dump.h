// The flight recorder of one rank, as gimbal_comm_dump or a failing operation wrote it, read and checked: the file may come
// from anywhere and may have been cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace gimbal {

struct DumpedOperation {
  uint64_t sequence = 0;  // 0: a message
  std::string text;       // "all_reduce #17 (count 100, float, sum)"
  std::string collective;
  uint64_t count = 0;
  std::string dtype;
  std::string op;
  int64_t root = -1;
  int64_t begin_ns = 0;  // on rank 0's clock
  std::optional<int64_t> end_ns;
  std::string state;  // "GIMBAL_OK", another status, "under way"
};

struct Dump {
  std::string communicator;
  Rank rank = 0;
  Rank size = 1;
  std::string host;
  int64_t pid = 0;
  int64_t clock_uncertainty_ns = 0;
  std::string status;
  std::string error;
  std::vector<DumpedOperation> operations;  // by their beginning
};

inline constexpr size_t kMostDumpBytes = size_t{16} << 20;

// INVALID_ARGUMENT with what is wrong and where.
Result<Dump> parse_dump(std::string_view text);
// One job's dumps, by rank: of one communicator and size, no rank twice.
Status check_dumps(std::vector<Dump>& dumps);

}  // namespace gimbal
