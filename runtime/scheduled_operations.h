// Operations that run a schedule over the node's endpoints: the plans, the lanes and the scratch memory behind them.
//
// Collectives run one after the other, so one set of lanes and one scratch buffer serve all of them; messages have lanes of
// their own because they run beside collectives.
//
// Thread safety: make() by one thread at a time (the caller while no collective is under way in the background, or the progress
// thread).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/call.h"
#include "runtime/cpu_executor.h"
#include "runtime/node_context.h"
#include "runtime/operation.h"
#include "runtime/plan_cache.h"
#include "runtime/settings.h"
#include "runtime/signature.h"
#include "transport/endpoint.h"

namespace gimbal {

// The shared-memory endpoints of one rank for one purpose; each is made when it is first used.
class LaneSet {
 public:
  // Bytes of one lane (one direction of one pair) with these settings; equal on all ranks.
  static size_t lane_bytes(const Settings& settings);

  // lane_set: an index below NodeLayout::kLaneSets.
  LaneSet(const Settings& settings, NodeMemory& memory, size_t lane_set);
  ~LaneSet();

  Endpoint& endpoint(Rank peer);
  [[nodiscard]] static size_t window(Rank size);

 private:
  const Settings& settings_;
  NodeMemory& memory_;
  const size_t lane_set_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

class ScheduledOperations {
 public:
  ScheduledOperations(const Settings& settings, NodeContext& context);

  // One operation at a time; call and signature must outlive it. algorithm: a name from the registry.
  Result<std::unique_ptr<Operation>> make(const Call& call, const Signature& signature, std::string_view algorithm);

 private:
  Result<std::shared_ptr<const Plan>> plan_for(const Call& call, std::string_view algorithm);
  Result<std::shared_ptr<const Plan>> build_plan(const Call& call, const PlanKey& key);

  const Settings& settings_;
  NodeContext& context_;
  LaneSet lanes_;
  PlanCache plans_;
  CpuExecutor executor_;
  std::vector<Endpoint*> endpoints_;
  std::vector<std::byte> scratch_;
};

}  // namespace gimbal
