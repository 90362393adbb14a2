#include "runtime/flight_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <utility>

namespace gimbal {
namespace {

// The bytes of the UTF-8 character that begins there; 0 when none does (RFC 3629: neither overlong forms nor surrogates).
size_t utf8_bytes(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  const unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return bytes;
}

// JSON is UTF-8, and a communicator's name may be any bytes: what is no character becomes the replacement character.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const size_t bytes = utf8_bytes(text);
    if (text[0] == '"' || text[0] == '\\') result += '\\';
    if (bytes == 0) result += "\\ufffd";
    if (static_cast<unsigned char>(text[0]) >= 0x20) result += text.substr(0, bytes);
    text.remove_prefix(std::max<size_t>(bytes, 1));
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
  const SignatureNames names = name_parts(signature);
  out << "{\"sequence\": " << signature.sequence << ", \"operation\": " << quoted(describe(signature))
      << ", \"collective\": " << quoted(names.collective) << ", \"count\": " << signature.count
      << ", \"dtype\": " << quoted(names.dtype) << ", \"op\": " << quoted(names.op) << ", \"root\": " << signature.root
      << ", \"begin_ns\": " << scale_.to_ns(entry.begin.load(std::memory_order_relaxed), ns_per_tick);
  const uint64_t end = entry.end.load(std::memory_order_relaxed);
  if (end == 0) {
    out << ", \"state\": \"under way\"}";
    return;
  }
  if (end != kUntimed) out << ", \"end_ns\": " << scale_.to_ns(end, ns_per_tick);
  out << ", \"state\": " << quoted(code_name(static_cast<int>(entry.code.load(std::memory_order_relaxed)))) << "}";
}

Status FlightRecorder::write_json(const std::string& path, const Origin& origin) const {
  std::ofstream file(path, std::ios::trunc);
  const double ns_per_tick = scale_.ns_per_tick();
  file << "{\"format\": \"gimbal-flight-recorder-1\", \"communicator\": " << quoted(origin.communicator)
       << ", \"rank\": " << origin.rank << ", \"size\": " << origin.size << ", \"host\": " << quoted(origin.host)
       << ", \"pid\": " << getpid() << ", \"clock\": {\"offset_ns\": " << origin.clock.offset_ns
       << ", \"uncertainty_ns\": " << origin.clock.uncertainty_ns
       << "}, \"status\": " << quoted(code_name(static_cast<int>(origin.status.code())))
       << ", \"error\": " << quoted(origin.status.message()) << ", \"operations\": [";
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
