// The simulate report of reports.h.
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/gimbal_plan/plot_axis.h"
#include "tools/gimbal_plan/reports.h"
#include "tools/gimbal_topo/words.h"

namespace gimbal {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : " " + text;
}

std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

// The figures of the largest cluster, best first.
std::vector<const Figure*> at_full_size(const std::vector<Figure>& figures) {
  std::vector<const Figure*> last;
  Rank nodes = 0;
  for (const Figure& figure : figures) nodes = std::max(nodes, figure.nodes);
  for (const Figure& figure : figures) {
    if (figure.nodes == nodes) last.push_back(&figure);
  }
  std::stable_sort(last.begin(), last.end(), [](const Figure* a, const Figure* b) { return a->time_us < b->time_us; });
  return last;
}

constexpr size_t kNameWidth = 24;
constexpr size_t kNumberWidth = 12;

std::string table(const std::vector<const Figure*>& figures) {
  std::string text = "algorithm" + std::string(kNameWidth - 9, ' ');
  for (const char* head : {"time us", "busbw GB/s", "rail", "pair", "pieces"}) text += cell(head, kNumberWidth);
  text += "  how\n";
  for (const Figure* figure : figures) {
    const std::string name(figure->algorithm->name);
    text += name + std::string(name.size() < kNameWidth ? kNameWidth - name.size() : 1, ' ');
    text += cell(fixed(figure->time_us, 1), kNumberWidth) + cell(fixed(figure->bus_gbps, 2), kNumberWidth) +
            cell(binary_size(figure->load.rail_bytes), kNumberWidth) +
            cell(binary_size(figure->load.pair_bytes), kNumberWidth) + cell(std::to_string(figure->pieces), kNumberWidth) +
            "  " + std::string(method_name(figure->method)) + "\n";
  }
  return text;
}

std::string scaling_table(const std::vector<Figure>& figures) {
  std::set<Rank> points;
  for (const Figure& figure : figures) points.insert(figure.nodes);
  if (points.size() < 2) return "";
  std::string text = "\nBus bandwidth in GB/s over the number of machines\nalgorithm" + std::string(kNameWidth - 9, ' ');
  constexpr size_t kWidth = 9;
  for (const Rank point : points) text += cell(std::to_string(point), kWidth);
  text += "\n";
  for (const Figure* best : at_full_size(figures)) {
    const std::string name(best->algorithm->name);
    text += name + std::string(name.size() < kNameWidth ? kNameWidth - name.size() : 1, ' ');
    for (const Figure& figure : figures) {
      if (figure.algorithm == best->algorithm) text += cell(fixed(figure.bus_gbps, 2), kWidth);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string cluster_sentence(const Cluster& cluster) {
  const CostInputs& inputs = cluster.inputs();
  const LinkCost& rail = inputs.links[static_cast<size_t>(LinkClass::kNetwork)];
  const auto nodes = static_cast<size_t>(cluster.shape().nodes());
  std::set<LinkClass> within;
  for (Rank peer = 1; peer < inputs.ranks_per_node; ++peer) within.insert(link_class(inputs, 0, peer));
  std::string text = counted(static_cast<size_t>(cluster.shape().nranks()), "rank") + " on " + counted(nodes, "machine");
  for (const LinkClass link_class : within) {
    text += ", " + std::string(link_class_name(link_class)) + " " +
            bandwidth(inputs.links[static_cast<size_t>(link_class)].bandwidth_gbps);
  }
  if (nodes == 1) return text;
  return text + ", " + counted(static_cast<size_t>(inputs.rails), "rail") + " of " + bandwidth(rail.bandwidth_gbps) + " and " +
         short_number(rail.latency_us) + " us each";
}

std::string scaling_text(const Cluster& cluster, const Operation& operation, const std::vector<Figure>& figures) {
  std::string text = std::string(collective_name(operation.collective)) + " of " + binary_size(operation.bytes) + ": " +
                     cluster_sentence(cluster) + "\n\n" + table(at_full_size(figures));
  text +=
      "rail: bytes that the busiest rail of a machine sends; pair: that the busiest pair of ranks of one machine exchanges\n";
  const bool has_bound =
      std::any_of(figures.begin(), figures.end(), [](const Figure& figure) { return figure.method == Method::kBound; });
  if (has_bound) text += "at least: too many steps to be walked through; what the bytes of one machine need\n";
  return text + scaling_table(figures);
}

std::string scaling_json(const Cluster& cluster, const Operation& operation, const std::vector<Figure>& figures) {
  const LinkCost& rail = cluster.inputs().links[static_cast<size_t>(LinkClass::kNetwork)];
  Json json = {{"collective", collective_name(operation.collective)},
               {"bytes", operation.bytes},
               {"ranks_per_node", cluster.inputs().ranks_per_node},
               {"rails", cluster.inputs().rails},
               {"rail_gbps", rail.bandwidth_gbps},
               {"rail_latency_us", rail.latency_us},
               {"figures", Json::array()}};
  for (const Figure& figure : figures) {
    json["figures"].push_back({{"algorithm", figure.algorithm->name},
                               {"nodes", figure.nodes},
                               {"ranks", figure.ranks},
                               {"pieces", figure.pieces},
                               {"time_us", figure.time_us},
                               {"busbw_gbps", figure.bus_gbps},
                               {"rail_bytes", figure.load.rail_bytes},
                               {"pair_bytes", figure.load.pair_bytes},
                               {"method", method_name(figure.method)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace gimbal
