#include "tools/gimbal_plan/reports.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "collectives/printer.h"
#include "tools/gimbal_topo/words.h"

namespace gimbal {
namespace {

using Json = nlohmann::ordered_json;

// More columns than these do not fit on a screen.
constexpr size_t kMostSideBySide = 4;

std::string order_name(OrderClass order) {
  switch (order) {
    case OrderClass::kTree:
      return "tree";
    case OrderClass::kRankOrder:
      return "rank_order";
    case OrderClass::kAgreed:
      return "agreed";
    case OrderClass::kDisagreed:
      return "disagreed";
  }
  return "";
}

std::string order_sentence(OrderClass order) {
  switch (order) {
    case OrderClass::kTree:
      return "added along the left-complete tree: fit for the deterministic mode";
    case OrderClass::kRankOrder:
      return "added in rank order";
    case OrderClass::kAgreed:
      return "equal bits on all ranks, in an order that depends on the chunk";
    case OrderClass::kDisagreed:
      return "ranks may differ in the last bits";
  }
  return "";
}

std::string nodes_text(const NodeShape& shape) {
  if (shape.nodes() == 1) return counted(static_cast<size_t>(shape.nranks()), "rank");
  bool is_even = true;
  for (Rank node = 0; node < shape.nodes(); ++node) is_even = is_even && shape.size_of(node) == shape.slices();
  const std::string nodes = counted(static_cast<size_t>(shape.nodes()), "node");
  if (is_even) return nodes + " of " + counted(static_cast<size_t>(shape.slices()), "rank");
  return counted(static_cast<size_t>(shape.nranks()), "rank") + " on " + nodes;
}

Json step_json(const Step& step) {
  Json json = {{"op", op_name(step.op)}, {"channel", step.channel}, {"chunk", step.chunk}, {"count", step.count}};
  if (step.peer != kNoRank) json["peer"] = step.peer;
  if (step.forward_to != kNoRank) json["forward_to"] = step.forward_to;
  if (step.peer != kNoRank) json["payload"] = payload_name(step.payload);
  if (step.forward_to != kNoRank) json["sent"] = payload_name(step.sent);
  if (step.src != BufferId::kNone) json["src"] = buffer_name(step.src);
  if (step.dst != BufferId::kNone) json["dst"] = buffer_name(step.dst);
  if (step.after != kNoStep) json["after"] = step.after;
  return json;
}

Json request_json(const Request& request) {
  Json sizes = Json::array();
  for (Rank node = 0; node < request.shape.nodes(); ++node) sizes.push_back(request.shape.size_of(node));
  return {{"collective", collective_name(request.collective)},
          {"ranks", request.shape.nranks()},
          {"node_sizes", sizes},
          {"root", request.root},
          {"channels", request.channels},
          {"pieces", request.pieces.value_or(1)},
          {"fused", request.fusion == Fusion::kFused}};
}

std::string dump(const Json& json) { return json.dump(2) + "\n"; }

}  // namespace

std::string title_of(const Request& request, const Algorithm& algorithm) {
  return std::string(algorithm.name) + " " + std::string(collective_name(request.collective)) + " over " +
         nodes_text(request.shape);
}

std::string schedule_text(std::span<const Schedule> schedules, std::span<const Rank> ranks) {
  if (ranks.size() > 1 && ranks.size() <= kMostSideBySide) return print_side_by_side(schedules);
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) text += "rank " + std::to_string(ranks[i]) + ": " + print(schedules[i]);
  return text;
}

std::string schedule_json(const Request& request, const Algorithm& algorithm, std::span<const Schedule> schedules,
                          std::span<const Rank> ranks) {
  Json json = request_json(request);
  json["algorithm"] = algorithm.name;
  json["chunk_count"] = schedules[0].chunk_count;
  json["schedules"] = Json::array();
  for (size_t i = 0; i < ranks.size(); ++i) {
    Json steps = Json::array();
    for (const Step& step : schedules[i].steps) steps.push_back(step_json(step));
    json["schedules"].push_back({{"rank", ranks[i]}, {"steps", std::move(steps)}});
  }
  return dump(json);
}

std::string verdict_text(const Request& request, const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const auto& [algorithm, verification] : verdicts) {
    text += title_of(request, *algorithm) + ": ";
    if (verification.ok()) {
      text += "right, " + counted(verification->steps, "step") + "; " + order_sentence(verification->order) + "\n";
    } else {
      text += "WRONG: " + verification.status().message() + "\n";
    }
  }
  return text;
}

std::string verdict_json(const Request& request, const std::vector<Verdict>& verdicts) {
  Json json = request_json(request);
  json["algorithms"] = Json::array();
  for (const auto& [algorithm, verification] : verdicts) {
    Json entry = {{"algorithm", algorithm->name}, {"right", verification.ok()}};
    if (verification.ok()) {
      entry["steps"] = verification->steps;
      entry["order"] = order_name(verification->order);
    } else {
      entry["error"] = verification.status().message();
    }
    json["algorithms"].push_back(std::move(entry));
  }
  return dump(json);
}

std::string goal_json(const Request& request, const Algorithm& algorithm, uint64_t chunk_bytes, const std::string& goal) {
  Json json = request_json(request);
  json["algorithm"] = algorithm.name;
  json["chunk_bytes"] = chunk_bytes;
  json["goal"] = goal;
  return dump(json);
}

}  // namespace gimbal
