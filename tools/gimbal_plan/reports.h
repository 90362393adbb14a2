// What gimbal-plan prints, as text for people and as JSON for programs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/verifier.h"
#include "tools/gimbal_plan/request.h"
#include "tools/gimbal_plan/scaling.h"

namespace gimbal {

// "ring all_reduce over 8 ranks", "hier_ring all_reduce over 2 nodes of 4 ranks".
std::string title_of(const Request& request, const Algorithm& algorithm);

// The steps of these ranks: side by side when they are few.
std::string schedule_text(std::span<const Schedule> schedules, std::span<const Rank> ranks);
std::string schedule_json(const Request& request, const Algorithm& algorithm, std::span<const Schedule> schedules,
                          std::span<const Rank> ranks);

struct Verdict {
  const Algorithm* algorithm;
  Result<Verification> verification;
};
std::string verdict_text(const Request& request, const std::vector<Verdict>& verdicts);
std::string verdict_json(const Request& request, const std::vector<Verdict>& verdicts);

std::string goal_json(const Request& request, const Algorithm& algorithm, uint64_t chunk_bytes, const std::string& goal);

// The cluster, then a table of all algorithms at the full size, then one of their bus bandwidths over the number of machines.
std::string scaling_text(const Cluster& cluster, const Operation& operation, const std::vector<Figure>& figures);
std::string scaling_json(const Cluster& cluster, const Operation& operation, const std::vector<Figure>& figures);
std::string cluster_sentence(const Cluster& cluster);

}  // namespace gimbal
