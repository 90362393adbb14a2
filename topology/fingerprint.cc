#include "topology/fingerprint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/hash.h"
#include "topology/graph_json.h"
#include "topology/sysfs.h"

namespace gimbal {
namespace {

namespace fs = std::filesystem;

// The names in a folder, in order; none when it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string cpu_model(const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  constexpr int kMostLines = 16;  // of the first CPU
  std::string line;
  for (int i = 0; i < kMostLines && std::getline(file, line); ++i) {
    if (line.starts_with("model name")) return line;
  }
  return "";
}

}  // namespace

uint64_t machine_fingerprint(const std::string& root) {
  std::string facts = cpu_model(root);
  const auto add = [&facts](const fs::path& path) { facts += "\n" + read_sysfs_line(path); };
  const fs::path system = root + "/sys/devices/system";
  add(system / "cpu/possible");
  const fs::path caches = system / "cpu/cpu0/cache";
  for (const std::string& name : names_in(caches)) {
    for (const char* fact : {"level", "type", "size", "shared_cpu_list"}) add(caches / name / fact);
  }
  for (const std::string& name : names_in(system / "node")) {
    if (name.starts_with("node")) add(system / "node" / name / "distance");
  }
  const fs::path devices = root + "/sys/bus/pci/devices";
  for (const std::string& name : names_in(devices)) {
    const std::string device_class = read_sysfs_line(devices / name / "class");
    if (!device_class.starts_with("0x02") && !device_class.starts_with("0x03")) continue;
    facts += "\n" + name;
    add(devices / name / "vendor");
    add(devices / name / "device");
  }
  return hash_text(facts);
}

uint64_t graph_fingerprint(const TopologyGraph& graph) { return hash_text(graph_to_json(graph)); }

}  // namespace gimbal
