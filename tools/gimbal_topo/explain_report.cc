#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/gimbal_topo/explain.h"
#include "topology/graph.h"

namespace gimbal {
namespace {

using Json = nlohmann::ordered_json;

// "8", "64K", "1G"; odd sizes in bytes.
std::string short_bytes(size_t bytes) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T"};
  size_t unit = 0;
  while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

std::string row(const ExplainedSize& size) {
  const Explanation& explanation = size.explanation;
  const Way& way = explanation.way;
  std::string line =
      format("%8s  %-22s %-9s %8d %7s", short_bytes(size.bytes).c_str(), std::string(way.algorithm).c_str(),
             std::string(protocol_name(way.protocol)).c_str(), way.channels, short_bytes(way.chunk_bytes).c_str());
  if (!explanation.chosen) return line + "            -        -  -\n";
  line += format(" %12.2f %8.2f  ", explanation.chosen->time_us, explanation.bus_gbps);
  if (!explanation.runner_up) return line + "-\n";
  return line + format("%s, x%.2f\n", describe(explanation.runner_up->way).c_str(),
                       explanation.runner_up->time_us / explanation.chosen->time_us);
}

Json to_json(const Option& option) {
  return {{"algorithm", option.way.algorithm},  {"protocol", protocol_name(option.way.protocol)},
          {"channels", option.way.channels},    {"chunk_bytes", option.way.chunk_bytes},
          {"time_us", option.time_us},          {"messages_us", option.estimate.path_us},
          {"work_us", option.estimate.work_us}, {"measured", option.is_measured}};
}

}  // namespace

std::string explain_table(const ExplainRequest& request, const std::string& origin, const std::vector<ExplainedSize>& sizes) {
  std::string text =
      std::string(collective_name(request.collective)) + " of " + std::string(dtype_name(request.dtype)) + " over " +
      std::to_string(request.ranks) + " ranks on " +
      (request.nodes == 1 ? printable(origin) : std::to_string(request.nodes) + " machines as " + printable(origin)) +
      "\n\n   bytes  algorithm              protocol  channels   chunk    predicted    busbw  runner-up\n" +
      "                                                             us     GB/s  and its time over this one's\n";
  for (const ExplainedSize& size : sizes) text += row(size);
  text += "\nWhy, where the choice changes:\n";
  const Way* before = nullptr;
  for (const ExplainedSize& size : sizes) {
    const Way& way = size.explanation.way;
    if (before == nullptr || before->algorithm != way.algorithm || before->protocol != way.protocol)
      text += "  " + to_text(size.explanation) + ".\n";
    before = &way;
  }
  return text;
}

std::string explain_json(const ExplainRequest& request, const std::string& origin, const std::vector<ExplainedSize>& sizes) {
  Json list = Json::array();
  for (const ExplainedSize& size : sizes) {
    const Explanation& explanation = size.explanation;
    Json entry = {{"bytes", size.bytes},
                  {"algorithm", explanation.way.algorithm},
                  {"protocol", protocol_name(explanation.way.protocol)},
                  {"channels", explanation.way.channels},
                  {"chunk_bytes", explanation.way.chunk_bytes}};
    if (explanation.chosen) {
      entry["predicted"] = to_json(*explanation.chosen);
      entry["busbw_gbps"] = explanation.bus_gbps;
    }
    if (explanation.runner_up) entry["runner_up"] = to_json(*explanation.runner_up);
    entry["why"] = to_text(explanation);
    list.push_back(std::move(entry));
  }
  const Json report = {{"collective", collective_name(request.collective)},
                       {"datatype", dtype_name(request.dtype)},
                       {"ranks", request.ranks},
                       {"nodes", request.nodes},
                       {"machine", printable(origin)},
                       {"sizes", std::move(list)}};
  return report.dump(2) + "\n";
}

}  // namespace gimbal
