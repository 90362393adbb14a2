// The schedules of all ranks at once, for tests.
#pragma once

#include <vector>

#include "collectives/algorithm.h"

namespace gimbal {

inline std::vector<Schedule> build_all(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion = Fusion::kNone) {
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < spec.nranks; ++rank) schedules.push_back(build_schedule(algorithm, spec, rank, fusion));
  return schedules;
}

inline const Algorithm& algorithm_named(Collective collective, const char* name) { return *find_algorithm(collective, name); }

}  // namespace gimbal
