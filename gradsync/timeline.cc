#include "gradsync/timeline.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace gimbal::gradsync {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(Activity activity) {
  switch (activity) {
    case Activity::kStep:
      return "step";
    case Activity::kExposed:
      return "exposed";
    case Activity::kReady:
      return "ready";
    case Activity::kQueued:
      return "queued";
    case Activity::kReduce:
      return "reduce";
    case Activity::kEncode:
      return "encode";
    case Activity::kScatter:
      return "scatter";
    case Activity::kCombine:
      return "combine";
    case Activity::kGather:
      return "gather";
    case Activity::kDecode:
      return "decode";
    case Activity::kDone:
      return "done";
  }
  return "unknown";
}

Json metadata(const char* name, size_t rank, size_t track, const std::string& value) {
  return {{"name", name}, {"ph", "M"}, {"pid", rank}, {"tid", track}, {"args", {{"name", value}}}};
}

}  // namespace

std::string timeline_json(std::span<const std::vector<Span>> spans, std::span<const std::string> track_names) {
  int64_t zero_ns = std::numeric_limits<int64_t>::max();
  for (const std::vector<Span>& of_rank : spans) {
    for (const Span& span : of_rank) zero_ns = std::min(zero_ns, span.begin_ns);
  }
  Json events = Json::array();
  for (size_t rank = 0; rank < spans.size(); ++rank) {
    events.push_back(metadata("process_name", rank, 0, "rank " + std::to_string(rank)));
    events.push_back(metadata("thread_name", rank, 0, "steps"));
    for (size_t i = 0; i < track_names.size(); ++i) {
      events.push_back(metadata("thread_name", rank, i + 1, track_names[i]));
    }
    for (const Span& span : spans[rank]) {
      events.push_back({{"name", name_of(span.activity)},
                        {"cat", "gradsync"},
                        {"ph", "X"},
                        {"ts", static_cast<double>(span.begin_ns - zero_ns) / 1e3},
                        {"dur", static_cast<double>(span.end_ns - span.begin_ns) / 1e3},
                        {"pid", rank},
                        {"tid", span.track},
                        {"args", {{"step", span.step}}}});
    }
  }
  const Json document = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gimbal::gradsync
