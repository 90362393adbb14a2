// Operations that run a schedule over endpoints: the plans and the scratch memory behind them. The endpoints may lead to ranks
// of this node and of others.
//
// Collectives run one after the other, so one set of links and one scratch buffer serve all of them.
//
// Thread safety: make() by one thread at a time (the caller while no collective is under way in the background, or the progress
// thread).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "collectives/node_shape.h"
#include "runtime/call.h"
#include "runtime/cpu_executor.h"
#include "runtime/links.h"
#include "runtime/node_context.h"
#include "runtime/operation.h"
#include "runtime/plan_cache.h"
#include "runtime/remote_news.h"
#include "runtime/settings.h"
#include "runtime/signature.h"
#include "transport/endpoint.h"

namespace gimbal {

class ScheduledOperations {
 public:
  // news: null in a communicator of one node. What is given must outlive this.
  ScheduledOperations(const Settings& settings, const NodeShape& nodes, NodeContext& context, RemoteNews* news, Links& links);

  // One operation at a time; call and signature must outlive it. algorithm: a name from the registry.
  Result<std::unique_ptr<Operation>> make(const Call& call, const Signature& signature, std::string_view algorithm);
  // An operation without data that ends when all ranks have entered it: barriers, and calls of count 0.
  Result<std::unique_ptr<Operation>> make_synchronisation(const Signature& signature);

 private:
  Result<std::shared_ptr<const Plan>> plan_for(const Call& call, std::string_view algorithm);
  Result<std::shared_ptr<const Plan>> build_plan(const Call& call, const PlanKey& key);
  // A plan with its endpoints and its place in scratch.
  Result<Binding> bind(const Plan& plan, const Call& call, uint64_t tag);

  const Settings& settings_;
  const NodeShape& nodes_;
  NodeContext& context_;
  RemoteNews* const news_;
  Links& links_;
  PlanCache plans_;
  CpuExecutor executor_;
  std::vector<Endpoint*> endpoints_;
  std::vector<std::byte> scratch_;
  std::vector<double> weights_;  // of all ranks, where they cross nodes
  Call synchronisation_;
  uint8_t synchronised_ = 0;
};

}  // namespace gimbal
