#include "runtime/tuned_tables.h"

#include <algorithm>

#include "collectives/algorithm.h"
#include "collectives/chunk_space.h"

namespace gimbal {
namespace {

bool can_take(const Way& way, Collective collective, Rank ranks) {
  if (way.protocol != Protocol::kSlots) return true;
  const Algorithm* algorithm = find_algorithm(collective, way.algorithm);
  const CollectiveSpec spec = {.collective = schedule_collective(collective), .nranks = ranks, .channels = kScheduleChannels};
  return algorithm != nullptr && admits(*algorithm, spec).empty();
}

}  // namespace

TunedTables::TunedTables(const TunedRun& run, Rank ranks, bool deterministic) {
  std::map<std::pair<Collective, DType>, Rows> tables;
  for (const auto& [key, rows] : run.tables) {
    const Collective collective = key.first;
    if (deterministic && reduces(collective)) continue;
    if (std::all_of(rows.begin(), rows.end(), [&](const TableRow& row) { return can_take(row.way, collective, ranks); })) {
      tables.emplace(key, rows);
    }
  }
  tables_ = std::make_shared<const std::map<std::pair<Collective, DType>, Rows>>(std::move(tables));
  for (int collective = 0; collective < kCollectiveCount; ++collective) {
    for (int dtype = 0; dtype < kPublicDTypeCount; ++dtype) {
      const auto key = static_cast<Collective>(collective);
      const auto found = tables_->find({key, table_type(key, static_cast<DType>(dtype))});
      if (found != tables_->end()) rows_[static_cast<size_t>(collective)][static_cast<size_t>(dtype)] = &found->second;
    }
  }
}

}  // namespace gimbal
