#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/environment.h"
#include "base/file_descriptor.h"
#include "tools/gimbal_topo/checks.h"
#include "topology/sysfs.h"
#include "transport/verbs_network.h"

namespace gimbal {
namespace {

uint64_t hard_limit(__rlimit_resource_t resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return kNoLimit;
  return limit.rlim_max;
}

// "always [madvise] never" -> "madvise".
std::string chosen_word(const std::string& line) {
  const size_t begin = line.find('[');
  const size_t end = line.find(']');
  return begin == std::string::npos || end == std::string::npos || end < begin ? "" : line.substr(begin + 1, end - begin - 1);
}

std::string shared_memory_error() {
  const FileDescriptor memory(memfd_create("gimbal-topo", MFD_CLOEXEC));
  return memory.valid() && ftruncate(memory.get(), 4096) == 0 ? "" : std::strerror(errno);
}

// Of interfaces that are up; loopback has the same address everywhere.
std::vector<NamedAddress> interface_addresses() {
  std::vector<NamedAddress> all;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return all;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_LOOPBACK) != 0 || (entry->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (entry->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, text, sizeof(text));
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      inet_ntop(AF_INET6, &address, text, sizeof(text));
    } else {
      continue;
    }
    all.push_back({entry->ifa_name, text});
  }
  freeifaddrs(first);
  return all;
}

void read_settings(CheckFacts& facts) {
  for (const char* name : {"GIMBAL_CONNECT_TIMEOUT", "GIMBAL_WARN_AFTER"}) {
    const Result<int64_t> value = environment_duration_ms(name, 0);
    if (!value.ok()) facts.environment_errors.push_back(value.status().message());
  }
  const Result<int64_t> timeout = environment_duration_ms("GIMBAL_TIMEOUT", facts.timeout_ms);
  if (timeout.ok()) {
    facts.timeout_ms = *timeout;
  } else {
    facts.environment_errors.push_back(timeout.status().message());
  }
  facts.unknown_variables = unknown_environment_variables();
}

// As a rank would find them, so that what keeps ranks from them is said here.
void add_verbs(CheckFacts& facts) {
  const Result<VerbsSettings> settings = read_verbs_settings();
  if (!settings.ok()) {
    facts.environment_errors.push_back(settings.status().message());
    facts.verbs_error = settings.status().message();
    return;
  }
  Result<std::vector<std::string>> ports = list_verbs_ports(*settings);
  if (ports.ok()) {
    facts.verbs_ports = std::move(ports).value();
  } else {
    facts.verbs_error = ports.status().message();
  }
}

}  // namespace

CheckFacts gather_facts(TopologyGraph graph, int64_t ranks, const std::string& root) {
  CheckFacts facts;
  const int64_t allowed = std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [](const TopologyNode& node) { return node.kind == NodeKind::kPu && node.allowed; });
  facts.graph = std::move(graph);
  facts.ranks = ranks > 0 ? ranks : std::max<int64_t>(allowed, 1);
  facts.locked_memory_limit = hard_limit(RLIMIT_MEMLOCK);
  facts.descriptor_limit = hard_limit(RLIMIT_NOFILE);
  facts.shared_memory_error = shared_memory_error();
  facts.huge_pages = chosen_word(read_sysfs_line(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.has_gpudirect_module = std::filesystem::exists(root + "/sys/module/nvidia_peermem");
  add_verbs(facts);
  facts.addresses = interface_addresses();
  read_settings(facts);
  return facts;
}

}  // namespace gimbal
