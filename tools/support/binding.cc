#include "tools/support/binding.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/cpu.h"
#include "base/environment.h"
#include "base/parse.h"

namespace gimbal {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

CpuList intersection(const CpuList& a, const CpuList& b) {
  CpuList both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

// The allowed CPUs of no part become parts of one CPU each.
std::vector<CpuList> with_rest(std::vector<CpuList> parts, const CpuList& allowed) {
  for (const size_t cpu : allowed) {
    const bool known = std::any_of(parts.begin(), parts.end(),
                                   [cpu](const CpuList& part) { return std::binary_search(part.begin(), part.end(), cpu); });
    if (!known) parts.push_back({cpu});
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Result<Binding> parse_binding(std::string_view name) {
  if (name == "none") return Binding::kNone;
  if (name == "core") return Binding::kCore;
  if (name == "numa") return Binding::kNuma;
  return Status(Code::kInvalidArgument, "\"" + std::string(name) + "\" is not none, core or numa");
}

Result<Binding> binding_from_environment() {
  Result<Binding> binding = parse_binding(read_environment("GIMBAL_BIND").value_or("none"));
  if (!binding.ok()) return Status(binding.status().code(), "GIMBAL_BIND: " + binding.status().message());
  return binding;
}

CpuList parse_cpu_list(std::string_view text) {
  CpuList cpus;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t dash = item.find('-');
    const Result<int64_t> first = parse_integer(item.substr(0, dash), 0, CPU_SETSIZE - 1);
    const Result<int64_t> last =
        dash == std::string_view::npos ? first : parse_integer(item.substr(dash + 1), 0, CPU_SETSIZE - 1);
    if (!first.ok() || !last.ok()) return {};
    for (int64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<size_t>(cpu));
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

std::string format_cpu_list(const CpuList& cpus) {
  std::string text;
  for (size_t begin = 0; begin < cpus.size();) {
    size_t end = begin + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[begin]);
    if (end - begin > 1) text += '-' + std::to_string(cpus[end - 1]);
    begin = end;
  }
  return text;
}

CpuList allowed_cpus() {
  const cpu_set_t affinity = read_cpu_allowance().affinity;
  CpuList cpus;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &affinity)) cpus.push_back(cpu);
  }
  return cpus;
}

cpu_set_t to_cpu_set(const CpuList& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const size_t cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

std::vector<CpuList> split_by_core(const CpuList& allowed, const std::string& sysfs) {
  std::vector<CpuList> cores;
  for (const size_t cpu : allowed) {
    const std::string path = sysfs + "/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
    CpuList core = intersection(parse_cpu_list(read_line(path)), allowed);
    if (!core.empty() && core.front() == cpu) cores.push_back(std::move(core));
  }
  return with_rest(std::move(cores), allowed);
}

std::vector<CpuList> split_by_numa_node(const CpuList& allowed, const std::string& sysfs) {
  std::vector<CpuList> nodes;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(sysfs + "/devices/system/node", none)) {
    CpuList node = intersection(parse_cpu_list(read_line(entry.path() / "cpulist")), allowed);
    if (!node.empty()) nodes.push_back(std::move(node));
  }
  if (nodes.empty()) return {allowed};
  return with_rest(std::move(nodes), allowed);
}

BindingPlan plan_binding(Binding binding, Rank ranks, const CpuList& allowed, const std::string& sysfs) {
  BindingPlan plan;
  if (binding == Binding::kNone) return plan;
  const std::vector<CpuList> parts =
      binding == Binding::kCore ? split_by_core(allowed, sysfs) : split_by_numa_node(allowed, sysfs);
  const auto count = static_cast<size_t>(ranks);
  for (size_t rank = 0; rank < count; ++rank) {
    plan.cpus.push_back(binding == Binding::kCore ? parts[rank % parts.size()] : parts[rank * parts.size() / count]);
  }
  if (binding == Binding::kCore && count > parts.size()) {
    plan.notice = std::to_string(count) + " ranks are bound to " + std::to_string(parts.size()) +
                  " allowed cores: some ranks share a core";
  }
  return plan;
}

}  // namespace gimbal
