#include "tools/gimbal_topo/layout.h"

#include <algorithm>
#include <set>

namespace gimbal {
namespace {

// More devices of a kind below one switch than this share a box.
constexpr size_t kMostBoxes = 9;
constexpr double kPuPitch = 13;
constexpr double kColumnPadding = 14;
constexpr double kNarrowestColumn = 230;

class LayoutMaker {
 public:
  explicit LayoutMaker(const TopologyGraph& graph) : graph_(graph) {}

  Layout make() {
    for (const NodeId package : nodes_of_kind(graph_, NodeKind::kPackage)) {
      for (const NodeId numa : nodes_of_kind(graph_, NodeKind::kNuma)) {
        if (ancestor_of_kind(graph_, numa, NodeKind::kPackage) == package) add_column(numa, package);
      }
    }
    for (const NodeId numa : nodes_of_kind(graph_, NodeKind::kNuma)) {
      if (ancestor_of_kind(graph_, numa, NodeKind::kPackage) == kNoNode) add_column(numa, kNoNode);
    }
    std::vector<NodeId> rest;
    for (const NodeId bridge : nodes_of_kind(graph_, NodeKind::kHostBridge)) {
      if (!placed_.contains(bridge) && !children_of(graph_, bridge).empty()) rest.push_back(bridge);
    }
    if (!rest.empty()) place(layout_.columns.emplace_back(), rest);
    layout_.width = cursor_ - kColumnGap + kMargin;
    return std::move(layout_);
  }

 private:
  void add_column(NodeId numa, NodeId package) {
    Column& column = layout_.columns.emplace_back();
    column.numa = numa;
    column.package = package;
    const TopologyNode& node = graph_.nodes[numa];
    const NodeId machine = machine_of(graph_, numa);
    const auto is_home = [&](const std::vector<int32_t>& near) {
      return near.empty() ? node.numa.empty() : near[0] == node.os_index;
    };
    for (const NodeId pu : nodes_of_kind(graph_, NodeKind::kPu)) {
      if (machine_of(graph_, pu) == machine && is_home(graph_.nodes[pu].numa)) column.pus.push_back(pu);
    }
    layout_.most_pus = std::max(layout_.most_pus, column.pus.size());
    std::vector<NodeId> bridges;
    for (const NodeId bridge : nodes_of_kind(graph_, NodeKind::kHostBridge)) {
      const bool is_here = machine_of(graph_, bridge) == machine && is_home(graph_.nodes[bridge].numa);
      if (is_here && placed_.insert(bridge).second && !children_of(graph_, bridge).empty()) bridges.push_back(bridge);
    }
    place(column, bridges);
  }

  void place(Column& column, const std::vector<NodeId>& bridges) {
    column.left = cursor_;
    leaf_cursor_ = cursor_ + kColumnPadding;
    for (const NodeId bridge : bridges) place_inner(column, bridge, kNoNode, 0);
    const double pus = kPuPitch * static_cast<double>(std::min(column.pus.size(), kPusPerRow)) + 2 * kColumnPadding;
    const double leaves = leaf_cursor_ - kLeafGap + kColumnPadding - cursor_;
    column.width = std::max({kNarrowestColumn, pus, leaves});
    // Few devices stand in the middle of their column.
    const double shift = bridges.empty() ? 0 : (column.width - leaves) / 2;
    for (PlacedNode& node : column.nodes) node.x += shift;
    cursor_ += column.width + kColumnGap;
  }

  // Returns the node's middle.
  double place_inner(Column& column, NodeId id, NodeId parent, int level) {
    layout_.levels = std::max(layout_.levels, level + 1);
    const size_t own = column.nodes.size();
    column.nodes.push_back({.ids = {id}, .parent = parent, .level = level});
    double first = 0;
    double last = 0;
    bool is_first = true;
    const auto include = [&](double x) {
      if (is_first) first = x;
      last = x;
      is_first = false;
    };
    std::vector<NodeId> of_kind[kNodeKindCount];
    for (const NodeId child : children_of(graph_, id)) {
      if (graph_.nodes[child].kind == NodeKind::kSwitch) {
        include(place_inner(column, child, id, level + 1));
      } else if (graph_.nodes[child].kind != NodeKind::kNvSwitch) {
        of_kind[static_cast<size_t>(graph_.nodes[child].kind)].push_back(child);
      }
    }
    for (const std::vector<NodeId>& devices : of_kind) {
      if (devices.size() > kMostBoxes) {
        include(place_leaf(column, devices, id, level + 1));
      } else {
        for (const NodeId device : devices) include(place_leaf(column, {device}, id, level + 1));
      }
    }
    if (is_first) include(place_leaf(column, {}, id, level + 1));  // keeps the place of a switch with nothing to draw below
    column.nodes[own].x = (first + last) / 2;
    return column.nodes[own].x;
  }

  double place_leaf(Column& column, const std::vector<NodeId>& ids, NodeId parent, int level) {
    const double x = leaf_cursor_ + kLeafWidth / 2;
    leaf_cursor_ += kLeafWidth + kLeafGap;
    if (!ids.empty()) column.nodes.push_back({.ids = ids, .parent = parent, .x = x, .level = level, .is_leaf = true});
    return x;
  }

  const TopologyGraph& graph_;
  Layout layout_;
  std::set<NodeId> placed_;
  double cursor_ = kMargin;
  double leaf_cursor_ = 0;
};

}  // namespace

const PlacedNode* Layout::find(NodeId id) const {
  for (const Column& column : columns) {
    for (const PlacedNode& node : column.nodes) {
      if (std::find(node.ids.begin(), node.ids.end(), id) != node.ids.end()) return &node;
    }
  }
  return nullptr;
}

Layout lay_out(const TopologyGraph& graph) { return LayoutMaker(graph).make(); }

}  // namespace gimbal
