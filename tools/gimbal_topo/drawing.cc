#include "tools/gimbal_topo/drawing.h"

#include <algorithm>
#include <cmath>

#include "tools/gimbal_topo/layout.h"
#include "tools/gimbal_topo/svg.h"
#include "tools/gimbal_topo/words.h"
#include "topology/degraded.h"
#include "topology/orders.h"

namespace gimbal {
namespace {

constexpr std::string_view kInk = "#1f2933";
constexpr std::string_view kFaint = "#7b8794";
constexpr std::string_view kEdge = "#cbd2d9";
constexpr std::string_view kAlarm = "#d64545";
constexpr std::string_view kRingColors[] = {"#2f80ed", "#eb5757", "#27ae60", "#9b51e0"};
constexpr std::string_view kKindColors[] = {"#3e7cb1", "#e0a458", "#6a994e", "#a06cd5"};
constexpr size_t kMostRings = 4;

constexpr double kTop = 84;  // below the title
constexpr double kNumaHead = 26;
constexpr double kPackageHead = 26;
constexpr double kPuPitch = 13;
constexpr double kLevelPitch = 56;
constexpr double kPillHeight = 22;
constexpr double kLeafHeight = 58;
constexpr double kRingPitch = 62;

// Slow links are pale, fast ones warm; a step for each class of link that machines have.
struct SpeedStep {
  double gbps;
  std::string_view color;
  std::string_view name;
};
constexpr SpeedStep kSpeeds[] = {{200, "#c81d77", "from 200 GB/s"}, {80, "#e8590c", "from 80"},
                                 {40, "#f08c00", "from 40"},        {20, "#2f9e44", "from 20"},
                                 {8, "#1c7ed6", "from 8"},          {0, "#91a7c0", "below 8 or unknown"}};

Stroke speed_stroke(double gbps) {
  const auto* step =
      std::find_if(std::begin(kSpeeds), std::end(kSpeeds) - 1, [gbps](const SpeedStep& s) { return gbps >= s.gbps; });
  return {step->color, 1.5 + std::log2(1 + std::max(gbps, 0.0)) * 0.55};
}

class Drawing {
 public:
  explicit Drawing(const TopologyGraph& graph) : graph_(graph), layout_(lay_out(graph)), degraded_(find_degraded(graph)) {
    const size_t rows = (layout_.most_pus + kPusPerRow - 1) / kPusPerRow;
    numa_bottom_ = kTop + kPackageHead + kNumaHead + std::max(kPuPitch * static_cast<double>(rows), kPuPitch) + 12;
    tree_top_ = numa_bottom_ + 44;
    leaf_top_ = tree_top_ + kLevelPitch * layout_.levels;
    bottom_ = layout_.levels > 0 ? leaf_top_ + kLeafHeight : numa_bottom_ + 20;
  }

  std::string draw(const std::string& title) {
    width_ = std::max(layout_.width, 900.0);
    draw_packages();
    for (const Column& column : layout_.columns) draw_column(column);
    draw_interconnects();
    draw_nvlinks();
    draw_rings();
    draw_legend();
    draw_title(title);
    return svg_.finish(width_, bottom_ + 24);
  }

 private:
  void draw_title(const std::string& title) {
    const TopologyNode& machine = graph_.nodes[0];
    svg_.text(kMargin, 36, machine.name.empty() ? title.substr(title.rfind('/') + 1) : machine.name, 20, kInk, "start", true);
    std::string facts = machine.model.empty() ? "" : machine.model + ", ";
    const auto count = [&](NodeKind kind) { return nodes_of_kind(graph_, kind).size(); };
    facts += counted(count(NodeKind::kPu), "PU") + ", " + counted(count(NodeKind::kGpu), "GPU") + ", " +
             counted(count(NodeKind::kNic), "NIC");
    if (!degraded_.empty()) facts += ", " + counted(degraded_.size(), "thing") + " degraded (red)";
    svg_.text(kMargin, 58, facts, 13, kFaint);
  }

  void draw_packages() {
    for (size_t first = 0; first < layout_.columns.size();) {
      size_t last = first;
      const NodeId package = layout_.columns[first].package;
      while (last + 1 < layout_.columns.size() && package != kNoNode && layout_.columns[last + 1].package == package) ++last;
      if (package != kNoNode) {
        const double left = layout_.columns[first].left - 8;
        const double right = layout_.columns[last].left + layout_.columns[last].width + 8;
        svg_.box(left, kTop, right - left, numa_bottom_ - kTop + 10, "#eef2f7", {kEdge, 1}, 10);
        // What does not fit the box is cut.
        constexpr double kLetterWidth = 7.4;
        std::string text = label(graph_, package);
        if (!graph_.nodes[package].model.empty()) text += "  " + graph_.nodes[package].model;
        const auto fits = static_cast<size_t>((right - left - 20) / kLetterWidth);
        if (text.size() > fits) text = text.substr(0, fits - 2) + "..";
        svg_.text(left + 12, kTop + 18, text, 12, kInk, "start", true);
      }
      first = last + 1;
    }
  }

  void draw_column(const Column& column) {
    if (column.numa != kNoNode) draw_numa(column);
    for (const PlacedNode& node : column.nodes) draw_link_up(column, node);
    for (const PlacedNode& node : column.nodes) {
      if (node.is_leaf) {
        draw_leaf(node);
      } else {
        draw_pill(node);
      }
    }
  }

  void draw_numa(const Column& column) {
    const double top = kTop + kPackageHead;
    svg_.box(column.left, top, column.width, numa_bottom_ - top, "#ffffff", {kEdge, 1});
    const TopologyNode& numa = graph_.nodes[column.numa];
    std::string text = label(graph_, column.numa);
    if (numa.bytes > 0) text += "  " + binary_size(numa.bytes);
    text += column.pus.empty() ? "  memory only" : "  " + counted(column.pus.size(), "PU");
    svg_.text(column.left + 12, top + 18, text, 12, kInk);
    for (size_t i = 0; i < column.pus.size(); ++i) {
      const TopologyNode& pu = graph_.nodes[column.pus[i]];
      const std::string_view color = kKindColors[static_cast<size_t>(std::max(pu.cpu_kind, 0)) % std::size(kKindColors)];
      const size_t row = i / kPusPerRow;
      const double x = column.left + 14 + kPuPitch * static_cast<double>(i % kPusPerRow);
      const double y = top + kNumaHead + kPuPitch * static_cast<double>(row);
      svg_.box(x, y, kPuSize, kPuSize, pu.allowed ? color : "#ffffff", {pu.allowed ? color : kEdge, 1}, 2);
    }
  }

  double top_of(const PlacedNode& node) const { return node.is_leaf ? leaf_top_ : tree_top_ + kLevelPitch * node.level; }

  void draw_link_up(const Column& column, const PlacedNode& node) {
    if (node.parent == kNoNode) {
      if (column.numa != kNoNode) svg_.line(node.x, numa_bottom_, node.x, top_of(node), {kEdge, 2});
      return;
    }
    const PlacedNode* parent = layout_.find(node.parent);
    for (const TopologyLink& link : graph_.links) {
      if (link.kind != LinkKind::kPci || link.a != node.ids[0]) continue;
      svg_.fall(parent->x, top_of(*parent) + kPillHeight, node.x, top_of(node), speed_stroke(link.bandwidth_gbps));
      if (!node.is_leaf || link.bandwidth_gbps <= 0) continue;
      const bool is_left = node.x < parent->x;  // the label goes to the side that the line does not come from
      svg_.text(node.x + (is_left ? -5 : 5), top_of(node) - 5, bandwidth(link.bandwidth_gbps), 9, kFaint,
                is_left ? "end" : "start");
    }
  }

  void draw_pill(const PlacedNode& node) {
    const TopologyNode& what = graph_.nodes[node.ids[0]];
    const std::string text = what.kind == NodeKind::kHostBridge ? "host bridge" : format(what.bus_id.value_or(BusId{}));
    const double width = 22 + 6.6 * static_cast<double>(text.size());
    svg_.box(node.x - width / 2, top_of(node), width, kPillHeight, "#ffffff", {kFaint, 1}, kPillHeight / 2);
    svg_.text(node.x, top_of(node) + 15, text, 11, kInk, "middle");
  }

  bool is_degraded(NodeId id) const {
    return std::any_of(degraded_.begin(), degraded_.end(), [id](const Degraded& found) { return found.node == id; });
  }

  void draw_leaf(const PlacedNode& node) {
    const TopologyNode& device = graph_.nodes[node.ids[0]];
    const bool is_gpu = device.kind == NodeKind::kGpu;
    const bool is_bad = std::any_of(node.ids.begin(), node.ids.end(), [&](NodeId id) { return is_degraded(id); });
    svg_.box(node.x - kLeafWidth / 2, leaf_top_, kLeafWidth, kLeafHeight, is_gpu ? "#e6f4ea" : "#e7f0fd",
             {is_bad ? kAlarm : (is_gpu ? "#37915b" : "#3b76c4"), is_bad ? 2.5 : 1.2});
    if (node.ids.size() > 1) {
      svg_.text(node.x, leaf_top_ + 20, counted(node.ids.size(), is_gpu ? "GPU" : "NIC"), 13, kInk, "middle", true);
      svg_.text(node.x, leaf_top_ + 36,
                label(graph_, node.ids[0]) + " to " + std::to_string(graph_.nodes[node.ids.back()].index), 10, kFaint,
                "middle");
      return;
    }
    svg_.text(node.x, leaf_top_ + 18, label(graph_, node.ids[0]), 13, kInk, "middle", true);
    svg_.text(node.x, leaf_top_ + 33, device.bus_id ? format(*device.bus_id) : "no bus id", 10, kFaint, "middle");
    constexpr size_t kFits = 16;
    std::string third = device.name;
    if (!device.ports.empty() && device.ports[0].gbits > 0) third += " " + bandwidth(device.ports[0].gbits / 8);
    if (third.size() > kFits) third = third.substr(0, kFits - 2) + "..";
    svg_.text(node.x, leaf_top_ + 48, third, 10, kFaint, "middle");
  }

  // Between neighbouring columns only: the others are no faster.
  void draw_interconnects() {
    for (const TopologyLink& link : graph_.links) {
      if (link.kind != LinkKind::kInterconnect || link.bandwidth_gbps <= 0) continue;
      for (size_t i = 0; i + 1 < layout_.columns.size(); ++i) {
        const Column& left = layout_.columns[i];
        const Column& right = layout_.columns[i + 1];
        const bool is_between = (left.numa == link.a && right.numa == link.b) || (left.numa == link.b && right.numa == link.a);
        if (!is_between) continue;
        const double y = kTop + kPackageHead + 14;
        svg_.line(left.left + left.width, y, right.left, y, speed_stroke(link.bandwidth_gbps));
        svg_.text((left.left + left.width + right.left) / 2, y + 18, bandwidth(link.bandwidth_gbps), 9, kFaint, "middle");
      }
    }
  }

  void draw_nvlinks() {
    std::vector<std::pair<double, double>> into_fabric;  // x, GB/s
    double deepest = 0;
    for (const NodeId gpu : nodes_of_kind(graph_, NodeKind::kGpu)) {
      double gbps = 0;
      for (const TopologyLink& link : graph_.links) {
        if (link.kind != LinkKind::kNvlink || (link.a != gpu && link.b != gpu)) continue;
        const NodeId other = link.a == gpu ? link.b : link.a;
        const PlacedNode* from = layout_.find(gpu);
        const PlacedNode* to = layout_.find(other);
        if (graph_.nodes[other].kind == NodeKind::kNvSwitch) gbps += link.bandwidth_gbps;
        if (from == nullptr || to == nullptr || graph_.nodes[other].kind != NodeKind::kGpu || other < gpu) continue;
        const double depth = 18 + std::abs(to->x - from->x) * 0.14;
        deepest = std::max(deepest, depth);
        svg_.arc(from->x, to->x, leaf_top_ + kLeafHeight, depth, speed_stroke(link.bandwidth_gbps));
      }
      if (const PlacedNode* placed = layout_.find(gpu); placed != nullptr && gbps > 0)
        into_fabric.emplace_back(placed->x, gbps);
    }
    bottom_ += deepest;
    if (into_fabric.empty()) return;
    const double top = bottom_ + 34;
    for (const auto& [x, gbps] : into_fabric) svg_.line(x, leaf_top_ + kLeafHeight, x, top, speed_stroke(gbps));
    const double left = into_fabric.front().first - kLeafWidth / 2;
    const double width = into_fabric.back().first + kLeafWidth / 2 - left;
    svg_.box(left, top, width, 30, "#fdeef5", {"#c81d77", 1.4}, 8);
    svg_.text(left + width / 2, top + 20,
              counted(nodes_of_kind(graph_, NodeKind::kNvSwitch).size(), "NVSwitch") + ", " +
                  bandwidth(into_fabric.front().second) + " a GPU",
              12, kInk, "middle", true);
    bottom_ = top + 30;
  }

  // A row for each channel: its devices as dots under themselves, its ring as arcs from one to the next.
  void draw_rings() {
    const std::vector<ChannelOrder> orders = channel_orders(graph_, PathFinder(graph_));
    if (orders.empty() || orders[0].devices.size() < 2 || layout_.find(orders[0].devices[0]) == nullptr) return;
    for (size_t channel = 0; channel < std::min(orders.size(), kMostRings); ++channel) {
      const ChannelOrder& order = orders[channel];
      const std::string_view color = kRingColors[channel];
      const double y = bottom_ + 34;
      std::string text = "channel " + std::to_string(channel);
      if (order.nic != kNoNode) text += ", rail " + label(graph_, order.nic);
      svg_.text(kMargin, y - 14, text, 11, color, "start", true);
      for (size_t i = 0; i < order.devices.size(); ++i) {
        const PlacedNode* from = layout_.find(order.devices[i]);
        const PlacedNode* to = layout_.find(order.devices[(i + 1) % order.devices.size()]);
        if (from == nullptr || to == nullptr) continue;
        // The way back runs below.
        const double depth = std::min(30.0, 8 + std::abs(to->x - from->x) * 0.05);
        svg_.arc(from->x, to->x, y, to->x > from->x ? -depth : depth, {color, 1.8});
        svg_.circle(from->x, y, i == 0 ? 6 : 4, color);
      }
      if (const PlacedNode* nic = layout_.find(order.nic)) {
        svg_.box(nic->x - 5, y - 5, 10, 10, "#ffffff", {color, 1.8}, 1);
        svg_.line(layout_.find(order.devices[0])->x, y, nic->x, y, {color, 1.4, true});
      }
      bottom_ += kRingPitch;
    }
    if (orders.size() > kMostRings)
      svg_.text(kMargin, bottom_ + 16, "and " + counted(orders.size() - kMostRings, "more channel"), 11, kFaint);
    if (orders.size() > kMostRings) bottom_ += 20;
  }

  void draw_legend() {
    const double y = bottom_ + 34;
    double x = kMargin;
    svg_.text(x, y + 4, "links, one direction:", 11, kFaint);
    x += 122;
    for (const SpeedStep& step : kSpeeds) {
      svg_.line(x, y, x + 24, y, speed_stroke(step.gbps));
      svg_.text(x + 30, y + 4, step.name, 11, kInk);
      x += 46 + 6.3 * static_cast<double>(step.name.size());
    }
    bottom_ = y + 8;
  }

  const TopologyGraph& graph_;
  Layout layout_;
  std::vector<Degraded> degraded_;
  Svg svg_;
  double width_ = 0;
  double numa_bottom_ = 0;
  double tree_top_ = 0;
  double leaf_top_ = 0;
  double bottom_ = 0;
};

}  // namespace

std::string draw_svg(const TopologyGraph& graph, const std::string& title) { return Drawing(graph).draw(title); }

}  // namespace gimbal
