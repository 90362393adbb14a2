#include "topology/orders.h"

#include <algorithm>
#include <limits>

namespace gimbal {
namespace {

// Up to here every ring is tried: 7! = 5040 of them, a millisecond.
constexpr size_t kMostForAllRings = 8;
// More channels than any schedule has; a switch with hundreds of NICs would only repeat them.
constexpr size_t kMostChannels = 64;

// How good the link between each two members is. The class decides first, as bandwidths of the slower classes are bounds; then
// what is left of the bandwidth when each ring that uses the link already takes its share.
class LinkQuality {
 public:
  LinkQuality(const PathFinder& paths, const std::vector<NodeId>& members)
      : size_(members.size()), paths_(size_ * size_), uses_(size_ * size_, 0) {
    for (size_t a = 0; a < size_; ++a) {
      for (size_t b = 0; b < size_; ++b) {
        const Path path = paths.find(members[a], members[b]);
        paths_[a * size_ + b] = {path.path_class, path.bandwidth_gbps};
        has_direct_links_ |= path.path_class == PathClass::kNvl && path.nodes.size() == 2;
      }
    }
  }

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] double of(size_t a, size_t b) const {
    constexpr double kClassStep = 1e6;  // GB/s, wider than any link
    const auto [path_class, bandwidth_gbps] = paths_[a * size_ + b];
    const auto classes_better_than_net = static_cast<double>(PathClass::kNet) - static_cast<double>(path_class);
    return kClassStep * classes_better_than_net + bandwidth_gbps / (1 + uses_[a * size_ + b]);
  }
  [[nodiscard]] bool has_direct_links() const { return has_direct_links_; }
  void use(size_t a, size_t b) { ++uses_[a * size_ + b]; }

 private:
  size_t size_;
  std::vector<std::pair<PathClass, double>> paths_;
  std::vector<int> uses_;
  bool has_direct_links_ = false;
};

using Order = std::vector<size_t>;

// The narrowest link first, then the sum of all.
std::pair<double, double> score(const LinkQuality& quality, const Order& order) {
  double narrowest = std::numeric_limits<double>::infinity();
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const double link = quality.of(order[i], order[(i + 1) % order.size()]);
    narrowest = std::min(narrowest, link);
    sum += link;
  }
  return {narrowest, sum};
}

Order best_of_all(const LinkQuality& quality, size_t start) {
  Order order = {start};
  for (size_t i = 0; i < quality.size(); ++i) {
    if (i != start) order.push_back(i);
  }
  Order best = order;
  auto best_score = score(quality, best);
  while (std::next_permutation(order.begin() + 1, order.end())) {
    if (const auto candidate = score(quality, order); candidate > best_score) {
      best_score = candidate;
      best = order;
    }
  }
  return best;
}

// The nearest one not yet visited, by index where equal.
Order nearest_neighbours(const LinkQuality& quality, size_t start) {
  Order order = {start};
  std::vector<bool> visited(quality.size(), false);
  visited[start] = true;
  while (order.size() < quality.size()) {
    size_t next = quality.size();
    for (size_t candidate = 0; candidate < quality.size(); ++candidate) {
      if (visited[candidate]) continue;
      if (next == quality.size() || quality.of(order.back(), candidate) > quality.of(order.back(), next)) next = candidate;
    }
    visited[next] = true;
    order.push_back(next);
  }
  return order;
}

Order find_ring(const LinkQuality& quality, size_t start) {
  return quality.size() <= kMostForAllRings ? best_of_all(quality, start) : nearest_neighbours(quality, start);
}

// Ring members: GPUs, or NUMA nodes that have CPUs.
std::vector<NodeId> ring_members(const TopologyGraph& graph) {
  std::vector<NodeId> members = nodes_of_kind(graph, NodeKind::kGpu);
  if (!members.empty()) return members;
  for (const NodeId numa : nodes_of_kind(graph, NodeKind::kNuma)) {
    const bool has_cpus = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const TopologyNode& node) {
      return node.kind == NodeKind::kPu && is_near(node.numa, {static_cast<int32_t>(graph.nodes[numa].os_index)});
    });
    if (has_cpus) members.push_back(numa);
  }
  return members;
}

}  // namespace

std::vector<Rail> rails_of(const TopologyGraph& graph, const PathFinder& paths) {
  std::vector<Rail> rails;
  for (const NodeId nic : nodes_of_kind(graph, NodeKind::kNic)) rails.push_back({nic, {}});
  const auto rail_of = [&](NodeId nic) {
    return std::find_if(rails.begin(), rails.end(), [nic](const Rail& rail) { return rail.nic == nic; });
  };
  for (const NodeId gpu : nodes_of_kind(graph, NodeKind::kGpu)) {
    auto chosen = rails.end();
    for (const NodeId nic : paths.nearest_nics(gpu)) {
      const auto candidate = rail_of(nic);
      if (chosen == rails.end() || candidate->gpus.size() < chosen->gpus.size()) chosen = candidate;
    }
    if (chosen != rails.end()) chosen->gpus.push_back(gpu);
  }
  return rails;
}

std::vector<ChannelOrder> channel_orders(const TopologyGraph& graph, const PathFinder& paths) {
  const std::vector<NodeId> members = ring_members(graph);
  if (members.empty()) return {};
  std::vector<Rail> rails = rails_of(graph, paths);
  std::erase_if(rails, [&](const Rail& rail) { return rail.gpus.empty() && graph.nodes[members[0]].kind == NodeKind::kGpu; });
  if (rails.empty()) rails.emplace_back();
  LinkQuality quality(paths, members);
  std::vector<ChannelOrder> orders;
  Order ring;
  for (const Rail& rail : rails) {
    if (orders.size() == kMostChannels) break;
    const NodeId first = rail.gpus.empty() ? members[0] : rail.gpus[0];
    const auto start = static_cast<size_t>(std::find(members.begin(), members.end(), first) - members.begin());
    if (ring.empty() || quality.has_direct_links()) {
      ring = find_ring(quality, start);
    } else {
      std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), start), ring.end());
    }
    ChannelOrder& order = orders.emplace_back(ChannelOrder{rail.nic, {}});
    for (const size_t position : ring) order.devices.push_back(members[position]);
    for (size_t i = 0; i < ring.size(); ++i) quality.use(ring[i], ring[(i + 1) % ring.size()]);
  }
  return orders;
}

std::vector<std::vector<NodeId>> group_devices(const PathFinder& paths, const std::vector<NodeId>& devices, PathClass at_most) {
  std::vector<std::vector<NodeId>> groups;
  std::vector<bool> taken(devices.size(), false);
  for (size_t first = 0; first < devices.size(); ++first) {
    if (taken[first]) continue;
    taken[first] = true;
    std::vector<size_t> reached = {first};
    for (size_t next = 0; next < reached.size(); ++next) {
      for (size_t other = 0; other < devices.size(); ++other) {
        if (taken[other] || paths.find(devices[reached[next]], devices[other]).path_class > at_most) continue;
        taken[other] = true;
        reached.push_back(other);
      }
    }
    std::sort(reached.begin(), reached.end());
    std::vector<NodeId>& group = groups.emplace_back();
    for (const size_t position : reached) group.push_back(devices[position]);
  }
  return groups;
}

}  // namespace gimbal
