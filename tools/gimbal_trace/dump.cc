#include "tools/gimbal_trace/dump.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gimbal {
namespace {

using Json = nlohmann::json;

// Two rings of 256; some room for later versions.
constexpr size_t kMostOperations = 65'536;
constexpr size_t kMostText = 4096;
constexpr int64_t kMostRanks = 100'000;
// Time and clocks: a century in nanoseconds, so that no sum of two overflows.
constexpr int64_t kLongestNs = int64_t{3'200'000'000} * 1'000'000'000;

Status invalid(const std::string& sentence) { return {Code::kInvalidArgument, sentence}; }

Result<std::string> text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return invalid(std::string("\"") + key + "\" is missing or no text");
  const auto& text = found->get_ref<const std::string&>();
  if (text.size() > kMostText) return invalid(std::string("\"") + key + "\" is longer than 4096 bytes");
  return text;
}

Result<int64_t> integer_of(const Json& object, const char* key, int64_t least, int64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer())
    return invalid(std::string("\"") + key + "\" is missing or no integer");
  const bool fits = !found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  const int64_t value = fits ? found->get<int64_t>() : 0;
  if (!fits || value < least || value > most) {
    return invalid(std::string("\"") + key + "\" is outside " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

Result<DumpedOperation> parse_operation(const Json& json, int64_t offset_ns) {
  if (!json.is_object()) return invalid("an operation is no object");
  DumpedOperation operation;
  ASSIGN_OR_RETURN(const int64_t sequence, integer_of(json, "sequence", 0, UINT32_MAX));
  operation.sequence = static_cast<uint64_t>(sequence);
  ASSIGN_OR_RETURN(operation.text, text_of(json, "operation"));
  ASSIGN_OR_RETURN(operation.collective, text_of(json, "collective"));
  ASSIGN_OR_RETURN(const int64_t count, integer_of(json, "count", 0, INT64_MAX));
  operation.count = static_cast<uint64_t>(count);
  ASSIGN_OR_RETURN(operation.dtype, text_of(json, "dtype"));
  ASSIGN_OR_RETURN(operation.op, text_of(json, "op"));
  ASSIGN_OR_RETURN(operation.root, integer_of(json, "root", INT32_MIN, INT32_MAX));
  ASSIGN_OR_RETURN(const int64_t begin_ns, integer_of(json, "begin_ns", -kLongestNs, kLongestNs));
  operation.begin_ns = begin_ns + offset_ns;
  if (json.contains("end_ns")) {
    ASSIGN_OR_RETURN(const int64_t end_ns, integer_of(json, "end_ns", -kLongestNs, kLongestNs));
    operation.end_ns = std::max(end_ns, begin_ns) + offset_ns;
  }
  ASSIGN_OR_RETURN(operation.state, text_of(json, "state"));
  return operation;
}

Result<Dump> parse_document(const Json& json) {
  ASSIGN_OR_RETURN(const std::string format, text_of(json, "format"));
  if (format != "gimbal-flight-recorder-1") return invalid("\"format\" is not gimbal-flight-recorder-1");
  Dump dump;
  ASSIGN_OR_RETURN(dump.communicator, text_of(json, "communicator"));
  ASSIGN_OR_RETURN(const int64_t size, integer_of(json, "size", 1, kMostRanks));
  ASSIGN_OR_RETURN(const int64_t rank, integer_of(json, "rank", 0, size - 1));
  dump.size = static_cast<Rank>(size);
  dump.rank = static_cast<Rank>(rank);
  ASSIGN_OR_RETURN(dump.host, text_of(json, "host"));
  ASSIGN_OR_RETURN(dump.pid, integer_of(json, "pid", 0, INT64_MAX));
  ASSIGN_OR_RETURN(dump.status, text_of(json, "status"));
  ASSIGN_OR_RETURN(dump.error, text_of(json, "error"));
  const auto clock = json.find("clock");
  if (clock == json.end() || !clock->is_object()) return invalid("\"clock\" is missing or no object");
  ASSIGN_OR_RETURN(const int64_t offset_ns, integer_of(*clock, "offset_ns", -kLongestNs, kLongestNs));
  ASSIGN_OR_RETURN(dump.clock_uncertainty_ns, integer_of(*clock, "uncertainty_ns", 0, kLongestNs));
  const auto operations = json.find("operations");
  if (operations == json.end() || !operations->is_array()) return invalid("\"operations\" is missing or no array");
  if (operations->size() > kMostOperations) return invalid("more than 65536 operations");
  for (const Json& one : *operations) {
    ASSIGN_OR_RETURN(DumpedOperation operation, parse_operation(one, offset_ns));
    dump.operations.push_back(std::move(operation));
  }
  std::ranges::stable_sort(dump.operations, {}, &DumpedOperation::begin_ns);
  return dump;
}

}  // namespace

Result<Dump> parse_dump(std::string_view text) {
  if (text.size() > kMostDumpBytes) return invalid("the file is larger than 16 MiB: no flight recorder is");
  // Deeper than any dump is hostile, and would cost memory for nothing.
  constexpr int kDeepest = 4;
  bool too_deep = false;
  const auto watch_depth = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  const Json json = Json::parse(text, watch_depth, false);
  if (too_deep || json.is_discarded() || !json.is_object())
    return invalid("it is not a whole JSON object of a flight recorder");
  return parse_document(json);
}

Status check_dumps(std::vector<Dump>& dumps) {
  std::ranges::stable_sort(dumps, {}, &Dump::rank);
  for (size_t i = 1; i < dumps.size(); ++i) {
    const Dump& before = dumps[i - 1];
    const Dump& dump = dumps[i];
    if (dump.rank == before.rank) return invalid("rank " + std::to_string(dump.rank) + " is in two files");
    if (dump.communicator != before.communicator || dump.size != before.size) {
      return invalid("ranks of two communicators: \"" + before.communicator + "\" of " + std::to_string(before.size) +
                     " and \"" + dump.communicator + "\" of " + std::to_string(dump.size));
    }
  }
  return {};
}

}  // namespace gimbal
