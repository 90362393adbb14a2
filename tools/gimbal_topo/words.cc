#include "tools/gimbal_topo/words.h"

#include <cstdio>

namespace gimbal {
namespace {

std::string number(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

}  // namespace

std::string ranges(const std::vector<int64_t>& numbers) {
  if (numbers.empty()) return "none";
  std::string text;
  for (size_t first = 0; first < numbers.size();) {
    size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(numbers[first]);
    if (last > first) text += "-" + std::to_string(numbers[last]);
    first = last + 1;
  }
  return text;
}

std::string counted(size_t count, const std::string& noun) {
  const char* plural = noun.ends_with("ch") ? "es" : "s";
  return std::to_string(count) + " " + noun + (count == 1 ? "" : plural);
}

std::string binary_size(uint64_t bytes) {
  constexpr double kKibi = 1024;
  auto value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < kKibi) break;
    value /= kKibi;
    unit = next;
  }
  return number("%.3g", value) + " " + unit;
}

std::string bandwidth(double gbps) { return gbps > 0 ? number("%.3g", gbps) + " GB/s" : "?"; }

std::string numa_text(const std::vector<int32_t>& numa) {
  return numa.empty() ? "unknown" : ranges(std::vector<int64_t>(numa.begin(), numa.end()));
}

std::string port_text(const NetPort& port) {
  std::string text = port.name;
  if (!port.interface.empty()) text += " (" + port.interface + ")";
  if (port.gbits > 0) text += " " + number("%g", port.gbits) + " Gbit/s";
  if (port.state != PortState::kUnknown) text.append(" ").append(port_state_name(port.state));
  return text;
}

}  // namespace gimbal
