#include "tools/gimbal_trace/timeline.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace gimbal {
namespace {

using Json = nlohmann::ordered_json;

// X: with a duration; i: a moment, of an operation whose end was not timed; B: begun and never ended.
Json event_of(const DumpedOperation& operation, Rank rank, int64_t zero_ns) {
  const bool under_way = operation.state == "under way";
  const char* const phase = operation.end_ns ? "X" : under_way ? "B" : "i";
  Json event = {{"name", operation.text},
                {"cat", operation.sequence == 0 ? "message" : "collective"},
                {"ph", phase},
                {"ts", static_cast<double>(operation.begin_ns - zero_ns) / 1e3},
                {"pid", rank},
                {"tid", operation.sequence == 0 ? 1 : 0}};
  if (operation.end_ns) event["dur"] = static_cast<double>(*operation.end_ns - operation.begin_ns) / 1e3;
  if (!operation.end_ns && !under_way) event["s"] = "t";
  event["args"] = {{"sequence", operation.sequence}, {"count", operation.count},
                   {"dtype", operation.dtype},       {"op", operation.op},
                   {"root", operation.root},         {"state", operation.state}};
  return event;
}

}  // namespace

std::string trace_timeline(const std::vector<Dump>& dumps) {
  int64_t zero_ns = std::numeric_limits<int64_t>::max();
  for (const Dump& dump : dumps) {
    if (!dump.operations.empty()) zero_ns = std::min(zero_ns, dump.operations.front().begin_ns);
  }
  Json events = Json::array();
  for (const Dump& dump : dumps) {
    const std::string name =
        "rank " + std::to_string(dump.rank) + " (pid " + std::to_string(dump.pid) + " on host " + dump.host + ")";
    events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", dump.rank}, {"args", {{"name", name}}}});
    for (const DumpedOperation& operation : dump.operations) events.push_back(event_of(operation, dump.rank, zero_ns));
  }
  const Json document = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gimbal
