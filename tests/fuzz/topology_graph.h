// What must hold of any graph that a reader has returned: its invariants, that it can be written and read again, and that every
// question about it has an answer.
#pragma once

#include <cstdlib>

#include "topology/degraded.h"
#include "topology/graph_json.h"
#include "topology/orders.h"

namespace gimbal {

inline void expect_sound_graph(const Result<TopologyGraph>& graph) {
  if (!graph.ok()) {
    if (graph.status().message().empty()) std::abort();
    return;
  }
  if (!check_graph(*graph).ok()) std::abort();
  const std::string json = graph_to_json(*graph);
  const Result<TopologyGraph> again = graph_from_json(json);
  if (!again.ok() || graph_to_json(*again) != json) std::abort();
  const PathFinder paths(*graph);
  const std::vector<NodeId> nics = nodes_of_kind(*graph, NodeKind::kNic);
  if (rails_of(*graph, paths).size() != nics.size()) std::abort();
  for (const ChannelOrder& order : channel_orders(*graph, paths)) {
    if (order.devices.empty()) std::abort();
  }
  for (const Degraded& found : find_degraded(*graph)) {
    if (found.what.empty() || found.remedy.empty()) std::abort();
  }
}

}  // namespace gimbal
