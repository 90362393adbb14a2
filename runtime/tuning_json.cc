// The tune cache's format (docs/tuning.md).
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "collectives/algorithm.h"
#include "runtime/tune_cache.h"

namespace gimbal {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;
constexpr size_t kMostRuns = 64;
constexpr size_t kMostEntries = 1024;  // of any list in a run
constexpr int64_t kMostRanks = 100'000;
constexpr size_t kMostPlaces = 256;
constexpr double kMostRate = 1e9;  // us and GB/s beyond any machine
constexpr double kLeastRate = 1e-9;

std::string fingerprint_text(uint64_t fingerprint) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(fingerprint));
  return text;
}

Json to_json(const CostInputs& inputs) {
  Json links = Json::object();
  for (size_t i = 0; i < kLinkClassCount; ++i) {
    const LinkCost& link = inputs.links[i];
    links[std::string(kLinkClassNames[i])] = {link.latency_us, link.bandwidth_gbps, link.overhead_us};
  }
  Json link_of = Json::array();
  for (const LinkClass link : inputs.link_of) link_of.push_back(link_class_name(link));
  const MemoryCost& memory = inputs.memory;
  return {
      {"ranks", inputs.ranks_per_node},
      {"cpus", inputs.cpus},
      {"handover_us", inputs.handover_us},
      {"cache_bytes", inputs.cache_bytes},
      {"rails", inputs.rails},
      {"links", std::move(links)},
      {"memory", {memory.copy_gbps, memory.cached_copy_gbps, memory.reduce_gbps, memory.cached_reduce_gbps, memory.total_gbps}},
      {"place_of", inputs.place_of},
      {"link_of", std::move(link_of)}};
}

Json to_json(const TunedRun& run) {
  Json factors = Json::array();
  for (const Correction& entry : run.corrections.all()) {
    factors.push_back(
        {collective_name(entry.collective), entry.algorithm, protocol_name(entry.protocol), entry.bytes, entry.factor});
  }
  Json tables = Json::array();
  for (const auto& [key, rows] : run.tables) {
    Json list = Json::array();
    for (const TableRow& row : rows) {
      list.push_back(
          {row.from_bytes, row.way.algorithm, protocol_name(row.way.protocol), row.way.channels, row.way.chunk_bytes});
    }
    tables.push_back({collective_name(key.first), dtype_name(key.second), std::move(list)});
  }
  return {{"inputs", to_json(run.inputs)}, {"factors", std::move(factors)}, {"tables", std::move(tables)}};
}

// A value of the file with its place in it.
struct Value {
  const Json* json;
  std::string where;

  [[nodiscard]] Status allowed(const std::string& what) const {
    return {Code::kInvalidArgument, where + ": allowed is " + what};
  }
};

Result<Value> member(const Value& object, const char* key) {
  if (!object.json->is_object()) return object.allowed("an object");
  const auto found = object.json->find(key);
  if (found == object.json->end()) return object.allowed("an object with \"" + std::string(key) + "\"");
  return Value{&*found, object.where + "/" + key};
}

// The elements of an array, as many as allowed.
Result<std::vector<Value>> list(const Value& value, size_t least, size_t most) {
  if (!value.json->is_array() || value.json->size() < least || value.json->size() > most) {
    return value.allowed("an array of " + std::to_string(least) + (least == most ? "" : " to " + std::to_string(most)));
  }
  std::vector<Value> values;
  for (const Json& element : *value.json) values.push_back({&element, value.where + "/" + std::to_string(values.size())});
  return values;
}

Result<std::vector<Value>> member_list(const Value& object, const char* key, size_t least, size_t most) {
  ASSIGN_OR_RETURN(const Value value, member(object, key));
  return list(value, least, most);
}

Result<double> number(const Value& value, double least, double most) {
  const double found = value.json->is_number() ? value.json->get<double>() : NAN;
  if (found >= least && found <= most) return found;
  char text[64];
  std::snprintf(text, sizeof(text), "a number from %g to %g", least, most);
  return value.allowed(text);
}

Result<int64_t> integer(const Value& value, int64_t least, int64_t most) {
  if (value.json->is_number_integer() && *value.json <= INT64_MAX && *value.json >= INT64_MIN) {
    const auto found = value.json->get<int64_t>();
    if (found >= least && found <= most) return found;
  }
  return value.allowed("a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

Result<std::string> text(const Value& value) {
  if (!value.json->is_string()) return value.allowed("text");
  return value.json->get<std::string>();
}

Result<Collective> collective(const Value& value) {
  ASSIGN_OR_RETURN(const std::string name, text(value));
  const std::optional<Collective> found = parse_collective(name);
  if (!found) return value.allowed("a collective's name");
  return *found;
}

Result<Protocol> protocol(const Value& value) {
  ASSIGN_OR_RETURN(const std::string name, text(value));
  for (int i = 0; i < kProtocolCount; ++i) {
    if (protocol_name(static_cast<Protocol>(i)) == name) return static_cast<Protocol>(i);
  }
  return value.allowed("a protocol's name");
}

// The registry's own text, which outlives the file.
Result<std::string_view> algorithm(const Value& value, Collective of, Protocol with) {
  ASSIGN_OR_RETURN(const std::string name, text(value));
  if (with != Protocol::kSlots) {
    if (name == kDirectAlgorithm && direct_serves(of, with, 0)) return kDirectAlgorithm;
  } else if (const Algorithm* found = find_algorithm(of, name)) {
    return found->name;
  }
  return value.allowed("an algorithm of " + std::string(collective_name(of)) + " with this protocol");
}

Result<LinkCost> link_cost_of(const Value& value) {
  ASSIGN_OR_RETURN(const std::vector<Value> fields, list(value, 3, 3));
  LinkCost cost;
  ASSIGN_OR_RETURN(cost.latency_us, number(fields[0], 0, kMostRate));
  ASSIGN_OR_RETURN(cost.bandwidth_gbps, number(fields[1], 0, kMostRate));
  ASSIGN_OR_RETURN(cost.overhead_us, number(fields[2], 0, kMostRate));
  return cost;
}

Result<MemoryCost> memory_of(const Value& inputs) {
  ASSIGN_OR_RETURN(const std::vector<Value> fields, member_list(inputs, "memory", 5, 5));
  MemoryCost memory;
  ASSIGN_OR_RETURN(memory.copy_gbps, number(fields[0], kLeastRate, kMostRate));
  ASSIGN_OR_RETURN(memory.cached_copy_gbps, number(fields[1], kLeastRate, kMostRate));
  ASSIGN_OR_RETURN(memory.reduce_gbps, number(fields[2], kLeastRate, kMostRate));
  ASSIGN_OR_RETURN(memory.cached_reduce_gbps, number(fields[3], kLeastRate, kMostRate));
  ASSIGN_OR_RETURN(memory.total_gbps, number(fields[4], 0, kMostRate));
  return memory;
}

Result<LinkClass> link_class_of(const Value& value) {
  ASSIGN_OR_RETURN(const std::string name, text(value));
  for (size_t i = 0; i < kLinkClassCount; ++i) {
    if (kLinkClassNames[i] == name) return static_cast<LinkClass>(i);
  }
  return value.allowed("a class of links");
}

// Places of ranks, and the class of link between each two of them.
Status read_places(const Value& value, CostInputs& inputs) {
  const auto ranks = static_cast<size_t>(inputs.ranks_per_node);
  ASSIGN_OR_RETURN(const std::vector<Value> places, member_list(value, "place_of", ranks, ranks));
  inputs.place_of.clear();
  inputs.places = 0;
  for (const Value& place : places) {
    ASSIGN_OR_RETURN(const int64_t number, integer(place, 0, static_cast<int64_t>(kMostPlaces) - 1));
    inputs.place_of.push_back(static_cast<int32_t>(number));
    inputs.places = std::max(inputs.places, static_cast<size_t>(number) + 1);
  }
  const size_t pairs = inputs.places * inputs.places;
  ASSIGN_OR_RETURN(const std::vector<Value> links, member_list(value, "link_of", pairs, pairs));
  inputs.link_of.clear();
  for (const Value& link : links) {
    ASSIGN_OR_RETURN(const LinkClass link_class, link_class_of(link));
    inputs.link_of.push_back(link_class);
  }
  return {};
}

Result<CostInputs> inputs_of(const Value& run) {
  ASSIGN_OR_RETURN(const Value value, member(run, "inputs"));
  const auto field = [&value](const char* key) { return member(value, key); };
  CostInputs inputs;
  ASSIGN_OR_RETURN(const Value ranks, field("ranks"));
  ASSIGN_OR_RETURN(const int64_t ranks_per_node, integer(ranks, 1, kMostRanks));
  inputs.ranks_per_node = static_cast<Rank>(ranks_per_node);
  ASSIGN_OR_RETURN(const Value cpus, field("cpus"));
  ASSIGN_OR_RETURN(inputs.cpus, number(cpus, 1e-3, 1e6));
  ASSIGN_OR_RETURN(const Value handover, field("handover_us"));
  ASSIGN_OR_RETURN(inputs.handover_us, number(handover, 0, kMostRate));
  ASSIGN_OR_RETURN(const Value cache, field("cache_bytes"));
  ASSIGN_OR_RETURN(const int64_t cache_bytes, integer(cache, 0, INT64_MAX));
  inputs.cache_bytes = static_cast<uint64_t>(cache_bytes);
  ASSIGN_OR_RETURN(const Value rails, field("rails"));
  ASSIGN_OR_RETURN(const int64_t rail_count, integer(rails, 1, 4096));
  inputs.rails = static_cast<int32_t>(rail_count);
  ASSIGN_OR_RETURN(inputs.memory, memory_of(value));
  ASSIGN_OR_RETURN(const Value links, field("links"));
  for (size_t i = 0; i < kLinkClassCount; ++i) {
    ASSIGN_OR_RETURN(const Value link, member(links, std::string(kLinkClassNames[i]).c_str()));
    ASSIGN_OR_RETURN(inputs.links[i], link_cost_of(link));
  }
  RETURN_IF_ERROR(read_places(value, inputs));
  return inputs;
}

Result<Correction> correction_of(const Value& value) {
  ASSIGN_OR_RETURN(const std::vector<Value> fields, list(value, 5, 5));
  Correction correction;
  ASSIGN_OR_RETURN(correction.collective, collective(fields[0]));
  ASSIGN_OR_RETURN(correction.protocol, protocol(fields[2]));
  ASSIGN_OR_RETURN(correction.algorithm, algorithm(fields[1], correction.collective, correction.protocol));
  ASSIGN_OR_RETURN(const int64_t bytes, integer(fields[3], 0, INT64_MAX));
  correction.bytes = static_cast<size_t>(bytes);
  ASSIGN_OR_RETURN(correction.factor, number(fields[4], 1e-6, 1e6));
  return correction;
}

Result<TableRow> row_of(const Value& value, Collective of) {
  ASSIGN_OR_RETURN(const std::vector<Value> fields, list(value, 5, 5));
  TableRow row;
  ASSIGN_OR_RETURN(const int64_t from_bytes, integer(fields[0], 0, INT64_MAX));
  row.from_bytes = static_cast<size_t>(from_bytes);
  ASSIGN_OR_RETURN(row.way.protocol, protocol(fields[2]));
  ASSIGN_OR_RETURN(row.way.algorithm, algorithm(fields[1], of, row.way.protocol));
  ASSIGN_OR_RETURN(const int64_t channels, integer(fields[3], 1, kScheduleChannels));
  row.way.channels = static_cast<uint8_t>(channels);
  ASSIGN_OR_RETURN(const int64_t chunk_bytes, integer(fields[4], 0, int64_t{1} << 30));
  row.way.chunk_bytes = static_cast<size_t>(chunk_bytes);
  return row;
}

Status read_table(const Value& value, TunedRun& run) {
  ASSIGN_OR_RETURN(const std::vector<Value> fields, list(value, 3, 3));
  ASSIGN_OR_RETURN(const Collective of, collective(fields[0]));
  ASSIGN_OR_RETURN(const std::string type_name, text(fields[1]));
  const std::optional<DType> dtype = parse_dtype(type_name);
  if (!dtype) return fields[1].allowed("a type's name");
  ASSIGN_OR_RETURN(const std::vector<Value> values, list(fields[2], 1, kMostEntries));
  std::vector<TableRow> rows;
  for (const Value& entry : values) {
    ASSIGN_OR_RETURN(const TableRow row, row_of(entry, of));
    if (rows.empty() ? row.from_bytes != 0 : row.from_bytes <= rows.back().from_bytes) {
      return entry.allowed("a row that begins at 0, or above the row before");
    }
    if (!rows.empty() && rows.back().way.protocol == Protocol::kFlag && row.from_bytes > kFlagBytes + 1) {
      return entry.allowed("a row that begins where flags end, at 4097 bytes");
    }
    rows.push_back(row);
  }
  if (rows.back().way.protocol == Protocol::kFlag) return fields[2].allowed("a last row without a flag");
  run.tables[{of, *dtype}] = std::move(rows);
  return {};
}

Result<TunedRun> run_of(const Value& value) {
  TunedRun run;
  ASSIGN_OR_RETURN(run.inputs, inputs_of(value));
  ASSIGN_OR_RETURN(const std::vector<Value> factors, member_list(value, "factors", 0, kMostEntries));
  for (const Value& factor : factors) {
    ASSIGN_OR_RETURN(const Correction correction, correction_of(factor));
    run.corrections.add(correction);
  }
  ASSIGN_OR_RETURN(const std::vector<Value> tables, member_list(value, "tables", 0, kMostEntries));
  for (const Value& table : tables) RETURN_IF_ERROR(read_table(table, run));
  return run;
}

}  // namespace

std::string format_tuning(const Tuning& tuning) {
  Json runs = Json::array();
  for (const TunedRun& run : tuning.runs) runs.push_back(to_json(run));
  const Json file = {{"gimbal_tune", kFormatVersion},
                     {"version", tuning.version},
                     {"fingerprint", fingerprint_text(tuning.fingerprint)},
                     {"runs", std::move(runs)}};
  return file.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<Tuning> parse_tuning(std::string_view contents) {
  if (contents.size() > kMostTuningBytes) return Status(Code::kInvalidArgument, "is larger than 1 MiB");
  const Json json = Json::parse(contents, nullptr, false);
  if (json.is_discarded()) return Status(Code::kInvalidArgument, "is no JSON");
  const Value file = {&json, "tuning"};
  ASSIGN_OR_RETURN(const Value format, member(file, "gimbal_tune"));
  RETURN_IF_ERROR(integer(format, kFormatVersion, kFormatVersion).status());
  Tuning tuning;
  ASSIGN_OR_RETURN(const Value version, member(file, "version"));
  ASSIGN_OR_RETURN(tuning.version, text(version));
  ASSIGN_OR_RETURN(const Value fingerprint, member(file, "fingerprint"));
  ASSIGN_OR_RETURN(const std::string digits, text(fingerprint));
  char* end = nullptr;
  tuning.fingerprint = std::strtoull(digits.c_str(), &end, 16);
  if (fingerprint_text(tuning.fingerprint) != digits) return fingerprint.allowed("16 hexadecimal digits");
  ASSIGN_OR_RETURN(const std::vector<Value> runs, member_list(file, "runs", 0, kMostRuns));
  for (const Value& value : runs) {
    ASSIGN_OR_RETURN(TunedRun run, run_of(value));
    tuning.runs.push_back(std::move(run));
  }
  return tuning;
}

}  // namespace gimbal
