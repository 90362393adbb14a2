// The measured tables of one job, ready for a look at every call.
#pragma once

#include <array>
#include <memory>

#include "runtime/call.h"
#include "runtime/tune_cache.h"

namespace gimbal {

class TunedTables {
 public:
  TunedTables() = default;
  // A table with a way that `ranks` ranks cannot take is left out; so are, where sums must be deterministic, those of
  // collectives that add.
  TunedTables(const TunedRun& run, Rank ranks, bool deterministic);

  // Null where nothing was measured.
  [[nodiscard]] const Way* find(const Call& call) const {
    const auto* rows = rows_[static_cast<size_t>(call.collective)][static_cast<size_t>(call.dtype)];
    return rows == nullptr ? nullptr : find_row(*rows, call.bytes());
  }

 private:
  using Rows = std::vector<TableRow>;
  std::shared_ptr<const std::map<std::pair<Collective, DType>, Rows>> tables_;
  std::array<std::array<const Rows*, kPublicDTypeCount>, kCollectiveCount> rows_ = {};
};

}  // namespace gimbal
