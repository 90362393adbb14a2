#include "tools/gimbal_bench/sizes.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

namespace gimbal::bench {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The number in a file of one line, as cgroups have them; infinity for "max" or no file.
double read_number(const std::string& path) {
  std::ifstream file(path);
  double number = 0;
  return file >> number ? number : kUnlimited;
}

double available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, rest; file >> name && std::getline(file, rest);) {
    if (name == "MemAvailable:") return std::stod(rest) * 1024;
  }
  return kUnlimited;
}

// The least that is left in this process's cgroup (version 2) or one around it. What its page cache holds counts as left.
double cgroup_memory_left() {
  std::ifstream file("/proc/self/cgroup");
  double left = kUnlimited;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3);; path = path.substr(0, path.rfind('/'))) {
      const std::string folder = "/sys/fs/cgroup" + path;
      const double limit = read_number(folder + "/memory.max");
      if (limit < kUnlimited) {
        double cache = 0;
        std::ifstream statistics(folder + "/memory.stat");
        for (std::string name; statistics >> name;) {
          double bytes = 0;
          statistics >> bytes;
          if (name == "inactive_file") cache = bytes;
        }
        left = std::min(left, limit - read_number(folder + "/memory.current") + cache);
      }
      if (path.find('/') == std::string::npos) break;
    }
  }
  return left;
}

std::string in_units(double bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f %s", bytes, kUnits[unit]);
  return text.data();
}

}  // namespace

std::optional<size_t> next_size(const Options& options, size_t bytes) {
  if (options.kind == Kind::kBarrier) return std::nullopt;
  size_t next = 0;
  if (options.factor == 0) {
    next = bytes + options.step_bytes;  // both below 2^63
  } else if (bytes > options.max_bytes / options.factor) {
    return std::nullopt;
  } else {
    next = std::max<size_t>(1, bytes * options.factor);  // from 0 there is no way by factors
  }
  return next <= options.max_bytes ? std::optional(next) : std::nullopt;
}

Status check_memory(const Options& options, Rank local_ranks) {
  constexpr double kBuffers = 2;  // of the full array: one to send, one to receive
  const double needed = kBuffers * static_cast<double>(options.max_bytes) * local_ranks;
  const double left = std::min(available_memory(), cgroup_memory_left());
  if (options.kind == Kind::kBarrier || needed <= left) return {};
  return {Code::kNoMemory, "-e: " + std::to_string(options.max_bytes) + " bytes need " + in_units(needed) + " for " +
                               std::to_string(local_ranks) + " ranks; this machine has " + in_units(left) + " left"};
}

}  // namespace gimbal::bench
