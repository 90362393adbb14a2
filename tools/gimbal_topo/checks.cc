#include "tools/gimbal_topo/checks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/gimbal_topo/words.h"
#include "topology/degraded.h"

namespace gimbal {
namespace {

// What registering a rank's buffers takes at least: gradients of a small model.
constexpr uint64_t kLeastLockedBytes = uint64_t{1} << 30;
// A rank's own files, and per peer a control connection, a segment and a data connection.
constexpr uint64_t kOwnDescriptors = 64;
constexpr uint64_t kDescriptorsPerPeer = 3;
// Checkpoints, compilations and page-ins make a healthy rank late by seconds.
constexpr int64_t kShortTimeoutMs = 10'000;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

// The ports of NICs that speak InfiniBand's language (a GID), in all and down.
struct PortCount {
  size_t all = 0;
  std::string down;
};

PortCount count_verbs_ports(const TopologyGraph& graph) {
  PortCount count;
  for (const NodeId nic : nodes_of_kind(graph, NodeKind::kNic)) {
    for (const NetPort& port : graph.nodes[nic].ports) {
      if (port.gid.empty()) continue;
      ++count.all;
      if (port.state == PortState::kDown) count.down += (count.down.empty() ? "" : ", ") + port.name;
    }
  }
  return count;
}

CheckLine check_cpus(const CheckFacts& facts) {
  const auto allowed =
      static_cast<int64_t>(pu_numbers(facts.graph, [&](NodeId id) { return facts.graph.nodes[id].allowed; }).size());
  if (allowed < facts.ranks) {
    return {"CPUs", CheckState::kSlow,
            counted(static_cast<size_t>(allowed), "PU") + " allowed for " + std::to_string(facts.ranks) + " ranks",
            "start fewer ranks, or widen the affinity mask or cpuset (taskset, the container's cpuset)"};
  }
  return {"CPUs", CheckState::kFine, std::to_string(allowed) + " allowed for " + std::to_string(facts.ranks) + " ranks", ""};
}

CheckLine check_quota(const CheckFacts& facts) {
  if (std::isinf(facts.graph.quota_cpus)) return {"CPU quota", CheckState::kFine, "none", ""};
  const std::string sentence = number(facts.graph.quota_cpus) + " CPUs for " + std::to_string(facts.ranks) + " ranks";
  if (facts.graph.quota_cpus >= static_cast<double>(facts.ranks)) return {"CPU quota", CheckState::kFine, sentence, ""};
  return {"CPU quota", CheckState::kSlow, sentence + ": ranks are stopped in the middle of operations",
          "raise the container's CPU limit (cpu.max) to the number of ranks, or start fewer"};
}

CheckLine check_locked_memory(const CheckFacts& facts) {
  const std::string limit = facts.locked_memory_limit == kNoLimit ? "no limit" : binary_size(facts.locked_memory_limit);
  if (count_verbs_ports(facts.graph).all == 0)
    return {"locked memory", CheckState::kFine, limit + " (no InfiniBand port needs it)", ""};
  if (facts.locked_memory_limit >= kLeastLockedBytes) return {"locked memory", CheckState::kFine, limit, ""};
  return {"locked memory", CheckState::kFails, limit + ": memory cannot be registered with InfiniBand",
          "raise RLIMIT_MEMLOCK: ulimit -l unlimited, LimitMEMLOCK=infinity, or docker run --ulimit memlock=-1"};
}

CheckLine check_descriptors(const CheckFacts& facts) {
  const uint64_t needed = kOwnDescriptors + kDescriptorsPerPeer * static_cast<uint64_t>(facts.ranks - 1);
  const std::string limit =
      facts.descriptor_limit == kNoLimit ? "no limit" : std::to_string(facts.descriptor_limit) + " at most";
  const std::string sentence = limit + ", " + std::to_string(needed) + " wanted by a rank of " + std::to_string(facts.ranks);
  if (facts.descriptor_limit >= needed) return {"open files", CheckState::kFine, sentence, ""};
  return {"open files", CheckState::kFails, sentence,
          "raise the hard limit RLIMIT_NOFILE: ulimit -Hn, LimitNOFILE=, docker run --ulimit nofile="};
}

CheckLine check_shared_memory(const CheckFacts& facts) {
  if (facts.shared_memory_error.empty())
    return {"shared memory", CheckState::kFine, "anonymous files work; /dev/shm is not needed", ""};
  return {"shared memory", CheckState::kFails, "memfd_create: " + facts.shared_memory_error,
          "allow memfd_create in the container's seccomp profile (Linux 3.17 or newer)"};
}

CheckLine check_huge_pages(const CheckFacts& facts) {
  if (facts.huge_pages != "never") {
    return {"huge pages", CheckState::kFine, facts.huge_pages.empty() ? "unknown to this kernel" : facts.huge_pages, ""};
  }
  return {"huge pages", CheckState::kSlow, "off: large buffers miss in the TLB",
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
}

CheckLine check_verbs_ports(const CheckFacts& facts) {
  const PortCount ports = count_verbs_ports(facts.graph);
  if (ports.all == 0) return {"InfiniBand", CheckState::kFine, "no port here", ""};
  if (ports.down.empty()) return {"InfiniBand", CheckState::kFine, counted(ports.all, "port") + " up", ""};
  return {"InfiniBand", CheckState::kSlow, "down: " + ports.down + " of " + counted(ports.all, "port"),
          "check cable, switch port and subnet manager (ibstat, ip link)"};
}

CheckLine check_verbs(const CheckFacts& facts) {
  if (facts.verbs_ports.empty()) {
    const bool is_wanted = count_verbs_ports(facts.graph).all > 0;
    const std::string sentence = "not between nodes: " + facts.verbs_error;
    if (!is_wanted) return {"verbs", CheckState::kFine, sentence, ""};
    return {"verbs", CheckState::kSlow, sentence, "install rdma-core (libibverbs and its providers), or correct GIMBAL_IB_*"};
  }
  std::string ports;
  for (const std::string& port : facts.verbs_ports) ports += (ports.empty() ? "" : "; ") + port;
  return {"verbs", CheckState::kFine, ports, ""};
}

CheckLine check_gpudirect(const CheckFacts& facts) {
  const bool has_gpus = !nodes_of_kind(facts.graph, NodeKind::kGpu).empty();
  if (!has_gpus || count_verbs_ports(facts.graph).all == 0) {
    return {"GPUDirect", CheckState::kFine, "needs GPUs and InfiniBand; not both are here", ""};
  }
  if (facts.has_gpudirect_module) return {"GPUDirect", CheckState::kFine, "nvidia_peermem is loaded", ""};
  return {"GPUDirect", CheckState::kSlow, "nvidia_peermem is not loaded: without DMA-BUF, GPU memory goes through host memory",
          "modprobe nvidia_peermem, or use a driver and kernel with DMA-BUF (open kernel modules, Linux 5.12)"};
}

CheckLine check_addresses(const CheckFacts& facts) {
  for (size_t i = 0; i < facts.addresses.size(); ++i) {
    for (size_t j = i + 1; j < facts.addresses.size(); ++j) {
      const NamedAddress& one = facts.addresses[i];
      const NamedAddress& other = facts.addresses[j];
      if (one.address != other.address || one.interface == other.interface) continue;
      return {"addresses", CheckState::kFails, one.interface + " and " + other.interface + " share " + one.address,
              "give each interface its own address: peers would be answered from the wrong one"};
    }
  }
  return {"addresses", CheckState::kFine, std::to_string(facts.addresses.size()) + " in use, all different", ""};
}

CheckLine check_settings(const CheckFacts& facts) {
  if (!facts.environment_errors.empty()) {
    return {"settings", CheckState::kFails, facts.environment_errors[0], "correct or unset the variable (docs/environment.md)"};
  }
  if (!facts.unknown_variables.empty()) {
    return {"settings", CheckState::kSlow, facts.unknown_variables[0], "correct or unset the variable (docs/environment.md)"};
  }
  return {"settings", CheckState::kFine, "no GIMBAL_ variable is misspelt", ""};
}

CheckLine check_timeout(const CheckFacts& facts) {
  const std::string sentence = number(static_cast<double>(facts.timeout_ms) / 1000) + " s for an operation";
  if (facts.timeout_ms >= kShortTimeoutMs) return {"time-out", CheckState::kFine, sentence, ""};
  return {"time-out", CheckState::kSlow, sentence + ": a rank that is only late counts as lost",
          "set GIMBAL_TIMEOUT to 10s or more, or leave it at 600s"};
}

CheckLine check_degraded(const CheckFacts& facts) {
  const std::vector<Degraded> all = find_degraded(facts.graph);
  const auto is_link = [](const Degraded& found) { return found.what.find(": port ") == std::string::npos; };
  const auto first = std::find_if(all.begin(), all.end(), is_link);
  if (first == all.end()) return {"hardware", CheckState::kFine, "no PCI link trained down, no NUMA node far away", ""};
  const auto count = std::count_if(all.begin(), all.end(), is_link);
  return {"hardware", CheckState::kSlow, first->what + (count > 1 ? " (and " + std::to_string(count - 1) + " more)" : ""),
          first->remedy};
}

const char* state_word(CheckState state) {
  switch (state) {
    case CheckState::kFine:
      return "ok   ";
    case CheckState::kSlow:
      return "slow ";
    case CheckState::kFails:
      return "FAILS";
  }
  return "";
}

}  // namespace

std::vector<CheckLine> judge(const CheckFacts& facts) {
  return {check_cpus(facts),          check_quota(facts),      check_locked_memory(facts), check_descriptors(facts),
          check_shared_memory(facts), check_huge_pages(facts), check_verbs_ports(facts),   check_verbs(facts),
          check_gpudirect(facts),     check_addresses(facts),  check_settings(facts),      check_timeout(facts),
          check_degraded(facts)};
}

std::string check_report(const std::vector<CheckLine>& lines) {
  constexpr size_t kNameWidth = 15;
  std::string text;
  for (const CheckLine& line : lines) {
    text += std::string(state_word(line.state)) + "  " + line.name +
            std::string(kNameWidth - std::min(kNameWidth, line.name.size()), ' ') + line.sentence + "\n";
    if (!line.remedy.empty()) text += "       remedy: " + line.remedy + "\n";
  }
  return text;
}

CheckState worst_of(const std::vector<CheckLine>& lines) {
  CheckState worst = CheckState::kFine;
  for (const CheckLine& line : lines) worst = std::max(worst, line.state);
  return worst;
}

}  // namespace gimbal
