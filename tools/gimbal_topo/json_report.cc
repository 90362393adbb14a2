#include "tools/gimbal_topo/json_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "topology/degraded.h"
#include "topology/graph_json.h"
#include "topology/orders.h"

namespace gimbal {
namespace {

using Json = nlohmann::ordered_json;

Json indexes(const TopologyGraph& graph, const std::vector<NodeId>& ids) {
  Json array = Json::array();
  for (const NodeId id : ids) array.push_back(graph.nodes[id].index);
  return array;
}

Json device(const TopologyGraph& graph, NodeId id) {
  const TopologyNode& node = graph.nodes[id];
  Json object = {{"index", node.index}, {"bus_id", nullptr}, {"numa", nullptr}, {"name", node.name}};
  if (node.bus_id) object["bus_id"] = format(*node.bus_id);
  if (node.numa.size() == 1) object["numa"] = node.numa[0];
  if (node.numa.size() > 1) object["numa"] = node.numa;
  return object;
}

Json counts(const TopologyGraph& graph) {
  Json object;
  for (int kind = 0; kind < kNodeKindCount; ++kind) {
    const auto node_kind = static_cast<NodeKind>(kind);
    object[std::string(kind_name(node_kind))] = nodes_of_kind(graph, node_kind).size();
  }
  Json allowed = Json::array();
  for (const NodeId id : nodes_of_kind(graph, NodeKind::kPu)) {
    if (graph.nodes[id].allowed) allowed.push_back(graph.nodes[id].os_index);
  }
  object["allowed_pus"] = allowed;
  return object;
}

Json gpu_report(const TopologyGraph& graph, const PathFinder& paths, const std::vector<NodeId>& gpus, NodeId gpu) {
  Json object = device(graph, gpu);
  const std::vector<NodeId> nearest = paths.nearest_nics(gpu);
  object["nearest_nics"] = indexes(graph, nearest);
  object["nearest_nic_bus_ids"] = Json::array();
  for (const NodeId nic : nearest) {
    const std::optional<BusId>& bus_id = graph.nodes[nic].bus_id;
    object["nearest_nic_bus_ids"].push_back(bus_id ? Json(format(*bus_id)) : Json());
  }
  if (!nearest.empty()) object["nearest_nic_path"] = path_class_name(paths.find(gpu, nearest[0]).path_class);
  // By the other GPU's index.
  Json classes = Json::array();
  Json bandwidths = Json::array();
  Json latencies = Json::array();
  for (const NodeId peer : gpus) {
    const Path path = paths.find(gpu, peer);
    classes.push_back(path_class_name(path.path_class));
    bandwidths.push_back(path.bandwidth_gbps);
    latencies.push_back(std::round(path.latency_us * 1000) / 1000);  // whole nanoseconds: no 0.7999999
  }
  object["path_classes"] = std::move(classes);
  object["path_bandwidths_gbps"] = std::move(bandwidths);
  object["path_latencies_us"] = std::move(latencies);
  return object;
}

}  // namespace

std::string json_report(const TopologyGraph& graph) {
  const PathFinder paths(graph);
  Json report = Json::parse(graph_to_json(graph));
  report["is_this_machine"] = graph.is_this_machine;
  report["counts"] = counts(graph);
  report["gpus"] = Json::array();
  const std::vector<NodeId> gpus = nodes_of_kind(graph, NodeKind::kGpu);
  for (const NodeId gpu : gpus) report["gpus"].push_back(gpu_report(graph, paths, gpus, gpu));
  report["nics"] = Json::array();
  for (const NodeId nic : nodes_of_kind(graph, NodeKind::kNic)) report["nics"].push_back(device(graph, nic));
  report["channels"] = Json::array();
  for (const ChannelOrder& order : channel_orders(graph, paths)) {
    Json channel = {{"nic", nullptr}, {"ring", Json::array()}};
    if (order.nic != kNoNode) channel["nic"] = graph.nodes[order.nic].index;
    for (const NodeId id : order.devices) {
      const TopologyNode& node = graph.nodes[id];
      channel["ring"].push_back(node.kind == NodeKind::kGpu ? node.index : node.os_index);
    }
    report["channels"].push_back(channel);
  }
  report["rails"] = Json::array();
  for (const Rail& rail : rails_of(graph, paths)) {
    report["rails"].push_back({{"nic", graph.nodes[rail.nic].index}, {"gpus", indexes(graph, rail.gpus)}});
  }
  report["degraded"] = Json::array();
  for (const Degraded& found : find_degraded(graph)) {
    report["degraded"].push_back({{"what", found.what}, {"remedy", found.remedy}});
  }
  return report.dump(1) + "\n";
}

}  // namespace gimbal
