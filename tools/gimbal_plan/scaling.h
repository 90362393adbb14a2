// What algorithms cost on a cluster, and how that changes from one machine to many.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "collectives/algorithm.h"
#include "tools/gimbal_plan/cluster.h"

namespace gimbal {

// How a figure was found. kBound: nobody is faster than the bytes of one machine's ranks allow; schedules that are too long to
// be walked through.
enum class Method : uint8_t { kSimulated, kOneStandsForAll, kBound };
std::string_view method_name(Method method);  // "simulated", "one node for all", "at least"

struct Figure {
  const Algorithm* algorithm = nullptr;
  Rank nodes = 1;
  Rank ranks = 1;
  uint32_t pieces = 1;
  Method method = Method::kSimulated;
  double time_us = 0;
  double bus_gbps = 0;
  ClusterLoad load = {};
};

struct Operation {
  Collective collective = Collective::kAllReduce;
  uint64_t bytes = 0;        // of the vector; of one block where there are blocks
  double partial_ratio = 1;  // bytes of a partial per byte of an element
  Rank root = 0;
  uint8_t channels = 1;
  Fusion fusion = Fusion::kFused;
  std::optional<uint32_t> pieces = {};  // nothing: the best of several
};

// More steps than these are not walked through: 40 bytes and about half a microsecond each.
inline constexpr uint64_t kMostSteps = 30'000'000;

Result<Figure> evaluate(const Algorithm& algorithm, const Cluster& cluster, const Operation& operation);

// The method alone, for those who compare: INVALID where it does not apply is the caller's business.
Result<Figure> evaluate_by(Method method, const Algorithm& algorithm, const Cluster& cluster, const Operation& operation,
                           uint32_t pieces);

// 1, 2, 4, ... machines and the last.
std::vector<Rank> scaling_points(Rank nodes);

}  // namespace gimbal
