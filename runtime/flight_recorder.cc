#include "runtime/flight_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace gimbal {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result + "\"";
}

}  // namespace

std::vector<const FlightRecorder::Entry*> FlightRecorder::recent() const {
  // The beginnings are copied before they are sorted: an entry may change meanwhile.
  std::vector<std::pair<uint64_t, const Entry*>> found;
  for (const Ring& ring : rings_) {
    for (const Entry& entry : ring.entries) {
      if (entry.number.load(std::memory_order_relaxed) == 0) continue;
      found.emplace_back(entry.begin.load(std::memory_order_relaxed), &entry);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<const Entry*> entries;
  entries.reserve(found.size());
  for (const auto& [begin, entry] : found) entries.push_back(entry);
  return entries;
}

void FlightRecorder::write_entry(std::ostream& out, const Entry& entry, double ns_per_tick) const {
  const uint64_t kind_and_root = entry.kind_and_root.load(std::memory_order_relaxed);
  const Signature signature = {entry.sequence.load(std::memory_order_relaxed), entry.count.load(std::memory_order_relaxed),
                               static_cast<uint32_t>(kind_and_root >> 32), static_cast<int32_t>(kind_and_root & 0xffffffffU)};
  out << "{\"sequence\": " << signature.sequence << ", \"operation\": " << quoted(describe(signature))
      << ", \"begin_ns\": " << scale_.to_ns(entry.begin.load(std::memory_order_relaxed), ns_per_tick);
  const uint64_t end = entry.end.load(std::memory_order_relaxed);
  if (end == 0) {
    out << ", \"state\": \"under way\"}";
    return;
  }
  if (end != kUntimed) out << ", \"end_ns\": " << scale_.to_ns(end, ns_per_tick);
  out << ", \"state\": " << quoted(code_name(static_cast<int>(entry.code.load(std::memory_order_relaxed)))) << "}";
}

Status FlightRecorder::write_json(const std::string& path, const std::string& communicator, Rank rank, Rank size,
                                  const Status& status) const {
  std::ofstream file(path, std::ios::trunc);
  const double ns_per_tick = scale_.ns_per_tick();
  file << "{\"format\": \"gimbal-flight-recorder-1\", \"communicator\": " << quoted(communicator) << ", \"rank\": " << rank
       << ", \"size\": " << size << ", \"pid\": " << getpid()
       << ", \"status\": " << quoted(code_name(static_cast<int>(status.code()))) << ", \"error\": " << quoted(status.message())
       << ", \"operations\": [";
  const char* separator = "\n  ";
  for (const Entry* entry : recent()) {
    file << separator;
    write_entry(file, *entry, ns_per_tick);
    separator = ",\n  ";
  }
  file << "\n]}\n";
  file.close();
  if (!file) return {Code::kSystem, "cannot write the flight recorder to " + path};
  return {};
}

}  // namespace gimbal
