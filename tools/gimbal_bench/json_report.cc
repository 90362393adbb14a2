#include "tools/gimbal_bench/json_report.h"

#include <array>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

namespace gimbal::bench {
namespace {

using Json = nlohmann::ordered_json;

Json half_json(const std::optional<Half>& half) {
  if (!half) return nullptr;
  const CallTimes& calls = half->calls;
  Json json = {{"time", half->time_us}, {"alg_bw", half->algbw_gbps}, {"bus_bw", half->busbw_gbps}};
  json["nwrong"] = half->wrong ? Json(*half->wrong) : Json("N/A");
  json["per_iter"] = {
      {"min", calls.min_us}, {"max", calls.max_us}, {"avg", calls.mean_us},        {"p50", calls.p50_us},
      {"p95", calls.p95_us}, {"p99", calls.p99_us}, {"stdev", calls.deviation_us}, {"cv", calls.variation_percent()}};
  return json;
}

Json row_json(const Row& row) {
  const Operation& operation = row.operation;
  return {{"size", row.bytes},
          {"count", operation.count},
          {"type", dtype_name(operation.dtype)},
          {"redop", shown_op(operation)},
          {"root", shown_root(operation)},
          {"out_of_place", half_json(row.out_of_place)},
          {"in_place", half_json(row.in_place)}};
}

Json config_json(const Options& options, size_t ranks) {
  return {{"collective", kind_name(options.kind)},
          {"ranks", ranks},
          {"min_bytes", options.min_bytes},
          {"max_bytes", options.max_bytes},
          {"step_bytes", options.step_bytes},
          {"step_factor", options.factor},
          {"iters", options.iterations},
          {"warmup_iters", options.warmup},
          {"agg_iters", options.aggregate},
          {"validation", options.check_rounds},
          {"average", static_cast<int>(options.average)},
          {"memory", memory_name(options)},
          {"graph_launches", options.graph_launches},
          {"algorithm", options.algorithm.empty() ? "auto" : options.algorithm},
          {"transport", options.transport.empty() ? "auto" : options.transport},
          {"deterministic", options.deterministic}};
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  std::array<char, 32> text;
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::string json_line(const Options& options, Rank ranks, const Row& row) {
  Json json = {{"collective", kind_name(options.kind)}, {"ranks", ranks}};
  json.update(row_json(row));
  return json.dump() + "\n";
}

Status write_report(const Options& options, const Report& report) {
  Json json = {{"version", 3}, {"start_time", report.start_time}, {"end_time", utc_now()}, {"args", report.arguments}};
  json["gimbal_version"] = gimbal_version_string();
  json["config"] = config_json(options, report.places.size());
  json["devices"] = Json::array();
  for (size_t rank = 0; rank < report.places.size(); ++rank) {
    const RankPlace& place = report.places[rank];
    json["devices"].push_back({{"rank", rank}, {"pid", place.pid}, {"host", place.host}, {"cpus", place.cpus}});
    if (options.on_device) json["devices"].back()["device"] = place.device;
  }
  json["results"] = Json::array();
  for (const Row& row : report.rows) json["results"].push_back(row_json(row));
  json["memory_per_rank"] = report.summary.host_bytes;
  json["out_of_bounds"] = {{"count", report.summary.wrong}, {"okay", report.summary.wrong == 0}};
  json["average_bus_bandwidth"] = {{"bandwidth", report.summary.average_busbw()}};
  std::ofstream file(options.json_path);
  file << json.dump(2) << "\n";
  file.close();
  if (!file) return system_error("-J: write \"" + options.json_path + "\"", errno);
  return {};
}

}  // namespace gimbal::bench
