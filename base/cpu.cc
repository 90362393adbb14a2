#include "base/cpu.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "base/parse.h"

namespace gimbal {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The tightest quota of this process's cgroup and its ancestors.
double cgroup_quota() {
  std::istringstream lines(read_file("/proc/self/cgroup"));
  double quota = kNoQuota;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("0::", 0) == 0) {  // cgroup v2
      for (std::string path = line.substr(3);; path = path.substr(0, path.rfind('/'))) {
        quota = std::min(quota, parse_cpu_quota(read_file("/sys/fs/cgroup" + path + "/cpu.max")));
        if (path.find('/') == std::string::npos) break;
      }
    } else if (const size_t at = line.find(":cpu,cpuacct:"); at != std::string::npos) {  // cgroup v1
      const std::string folder = "/sys/fs/cgroup/cpu,cpuacct" + line.substr(at + 13);
      const std::string v1 = read_file(folder + "/cpu.cfs_quota_us") + " " + read_file(folder + "/cpu.cfs_period_us");
      quota = std::min(quota, parse_cpu_quota(v1));
    }
  }
  return quota;
}

}  // namespace

double parse_cpu_quota(std::string_view text) {
  std::istringstream words{std::string(text)};
  double quota_us = 0;
  double period_us = 0;
  if (!(words >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return kNoQuota;
  return quota_us / period_us;
}

CpuAllowance read_cpu_allowance() {
  CpuAllowance allowance = {};
  if (sched_getaffinity(0, sizeof(allowance.affinity), &allowance.affinity) != 0) {
    // More CPUs than cpu_set_t holds: assume all that it can name.
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &allowance.affinity);
  }
  allowance.quota_cpus = cgroup_quota();
  return allowance;
}

size_t last_level_cache_bytes() {
  constexpr size_t kDefaultBytes = size_t{8} << 20;  // a small server's
  constexpr int kMostLevels = 8;
  size_t last = 0;
  for (int index = 0; index < kMostLevels; ++index) {
    std::string text = read_file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const Result<uint64_t> bytes = parse_bytes(text);
    if (bytes.ok()) last = std::max<size_t>(last, *bytes);
  }
  return last > 0 ? last : kDefaultBytes;
}

}  // namespace gimbal
