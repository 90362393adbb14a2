// Where everything of a drawing goes: one column per NUMA node with its devices below it, columns of one package side by side.
#pragma once

#include <string>
#include <vector>

#include "topology/graph.h"

namespace gimbal {

// A switch, a device, or several devices of a kind in one box.
struct PlacedNode {
  std::vector<NodeId> ids;
  NodeId parent = kNoNode;  // the host bridge or switch above
  double x = 0;             // its middle
  int level = 0;            // 0: host bridge; leaves are drawn in the lowest row whatever their level
  bool is_leaf = false;
};

struct Column {
  NodeId numa = kNoNode;  // kNoNode: devices below no NUMA node
  NodeId package = kNoNode;
  std::vector<int64_t> pus;
  double left = 0;
  double width = 0;
  std::vector<PlacedNode> nodes;
};

struct Layout {
  std::vector<Column> columns;
  int levels = 0;  // of switches, host bridges included
  double width = 0;
  size_t most_pus = 0;  // in one column

  // The middle of a placed node; nullptr when it is not drawn.
  [[nodiscard]] const PlacedNode* find(NodeId id) const;
};

inline constexpr double kLeafWidth = 96;
inline constexpr double kLeafGap = 10;
inline constexpr double kColumnGap = 52;
inline constexpr double kMargin = 36;
inline constexpr size_t kPusPerRow = 16;
inline constexpr double kPuSize = 10;

Layout lay_out(const TopologyGraph& graph);

}  // namespace gimbal
