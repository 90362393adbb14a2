#include "runtime/flight_recorder.h"

#include <unistd.h>

#include <fstream>

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

Status FlightRecorder::write_json(const std::string& path, const std::string& communicator, Rank rank, Rank size,
                                  const Status& status) const {
  std::ofstream file(path, std::ios::trunc);
  const double ns_per_tick = scale_.ns_per_tick();
  file << "{\"format\": \"gimbal-flight-recorder-1\", \"communicator\": " << quoted(communicator) << ", \"rank\": " << rank
       << ", \"size\": " << size << ", \"pid\": " << getpid()
       << ", \"status\": " << quoted(code_name(static_cast<int>(status.code()))) << ", \"error\": " << quoted(status.message())
       << ", \"operations\": [";
  const uint64_t next = next_.load(std::memory_order_relaxed);
  const char* separator = "\n";
  for (uint64_t number = next > kEntries ? next - kEntries : 0; number < next; ++number) {
    const Entry& entry = entries_[number % kEntries];
    if (entry.number.load(std::memory_order_relaxed) != number + 1) continue;
    const uint64_t kind_and_root = entry.kind_and_root.load(std::memory_order_relaxed);
    const Signature signature = {entry.sequence.load(std::memory_order_relaxed), entry.count.load(std::memory_order_relaxed),
                                 static_cast<uint32_t>(kind_and_root >> 32), static_cast<int32_t>(kind_and_root & 0xffffffffU)};
    const uint64_t end = entry.end.load(std::memory_order_relaxed);
    file << separator << "  {\"sequence\": " << signature.sequence << ", \"operation\": " << quoted(describe(signature))
         << ", \"begin_ns\": " << scale_.to_ns(entry.begin.load(std::memory_order_relaxed), ns_per_tick);
    if (end == 0) {
      file << ", \"state\": \"under way\"}";
    } else {
      file << ", \"end_ns\": " << scale_.to_ns(end, ns_per_tick)
           << ", \"state\": " << quoted(code_name(static_cast<int>(entry.code.load(std::memory_order_relaxed)))) << "}";
    }
    separator = ",\n";
  }
  file << "\n]}\n";
  file.close();
  if (!file) return {Code::kSystem, "cannot write the flight recorder to " + path};
  return {};
}

}  // namespace gimbal
