#include "runtime/verbs_links.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/node_memory.h"
#include "topology/discover.h"
#include "topology/paths.h"
#include "transport/verbs_network.h"

namespace gimbal {
namespace {

class VerbsLinks final : public RemoteLinks {
 public:
  explicit VerbsLinks(std::unique_ptr<VerbsNetwork> network) : network_(std::move(network)) {}

  Result<std::unique_ptr<Endpoint>> make_endpoint(Rank peer, size_t lane_set) override {
    return network_->take_endpoint(peer, lane_set);
  }
  void drain(Deadline deadline) override { network_->drain(deadline); }
  [[nodiscard]] bool may_sleep(size_t lane_set) override { return network_->may_sleep(lane_set); }
  [[nodiscard]] int descriptor(size_t lane_set) const override { return network_->fd(lane_set); }
  [[nodiscard]] std::string describe() const override { return "verbs over " + network_->describe(); }

 private:
  const std::unique_ptr<VerbsNetwork> network_;
};

std::string first_port(const TopologyNode& nic) { return nic.ports.empty() ? nic.name : nic.ports.front().name; }

// The RDMA devices that are nearest to the CPUs of this process; none when that is all of them, or the machine is not known.
std::vector<std::string> nearest_devices() {
  const Result<TopologyGraph> graph = discover_topology();
  if (!graph.ok() || !graph->is_this_machine) return {};
  const std::vector<NodeId> nics = nodes_of_kind(*graph, NodeKind::kNic);
  std::vector<NodeId> near_nodes;
  for (const NodeId pu : nodes_of_kind(*graph, NodeKind::kPu)) {
    if (!graph->nodes[static_cast<size_t>(pu)].allowed) continue;
    for (const NodeId numa : nodes_of_kind(*graph, NodeKind::kNuma)) {
      if (is_near(graph->nodes[static_cast<size_t>(pu)].numa, graph->nodes[static_cast<size_t>(numa)].numa)) {
        near_nodes.push_back(numa);
      }
    }
  }
  const PathFinder paths(*graph);
  std::map<PathClass, std::vector<std::string>> by_class;
  for (const NodeId nic : nics) {
    PathClass best = PathClass::kNet;
    for (const NodeId numa : near_nodes) best = std::min(best, paths.find(numa, nic).path_class);
    by_class[best].push_back(first_port(graph->nodes[static_cast<size_t>(nic)]));
  }
  return by_class.size() <= 1 ? std::vector<std::string>() : by_class.begin()->second;
}

}  // namespace

Result<std::unique_ptr<RemoteLinks>> connect_verbs_links(Bootstrap& mesh, const NodeShape& nodes, const Settings& settings,
                                                         const EndpointShape& shape, const Log& log, Deadline deadline) {
  VerbsNetworkOptions options;
  options.rank = settings.rank;
  for (Rank peer = 0; peer < nodes.nranks(); ++peer) {
    if (nodes.node_of(peer) != nodes.node_of(settings.rank)) options.peers.push_back(peer);
  }
  options.lane_sets = NodeLayout::kLaneSets;
  options.channels = shape.channels;
  options.slot_bytes = shape.slot_bytes;
  options.window = shape.window;
  options.settings = settings.verbs;
  options.nearest = nearest_devices;
  options.log = log;
  ASSIGN_OR_RETURN(std::unique_ptr<VerbsNetwork> network, VerbsNetwork::connect(mesh, options, deadline));
  return std::unique_ptr<RemoteLinks>(std::make_unique<VerbsLinks>(std::move(network)));
}

}  // namespace gimbal
