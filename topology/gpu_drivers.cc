#include "topology/gpu_drivers.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "topology/link_speeds.h"

namespace gimbal {
namespace {

// A library that may be missing, with functions by name. Not closed: drivers leave threads behind that run its code.
class RuntimeLibrary {
 public:
  explicit RuntimeLibrary(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}

  template <typename Function>
  bool find(const char* name, Function*& function) const {
    function = handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  void* handle_;
};

// The CUDA driver API as cuda.h declares it. Every function returns 0 for success.
struct CudaDriver {
  int (*init)(unsigned flags);
  int (*device_count)(int* count);
  int (*device_name)(char* name, int size, int device);
  int (*bus_id)(char* text, int size, int device);
  int (*attribute)(int* value, int attribute, int device);
  int (*can_access_peer)(int* value, int device, int peer);

  static std::optional<CudaDriver> load() {
    const RuntimeLibrary library("libcuda.so.1");
    CudaDriver driver{};
    const bool is_complete =
        library.find("cuInit", driver.init) && library.find("cuDeviceGetCount", driver.device_count) &&
        library.find("cuDeviceGetName", driver.device_name) && library.find("cuDeviceGetPCIBusId", driver.bus_id) &&
        library.find("cuDeviceGetAttribute", driver.attribute) && library.find("cuDeviceCanAccessPeer", driver.can_access_peer);
    if (!is_complete || driver.init(0) != 0) return std::nullopt;
    return driver;
  }
};
constexpr int kCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;

// nvmlPciInfo_t of nvml.h (version 3 of the structure).
struct NvmlPciInfo {
  char old_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];
};
using NvmlDevice = struct NvmlDeviceStruct*;
constexpr unsigned kMostNvlinks = 18;  // NVML_NVLINK_MAX_LINKS

struct Nvml {
  int (*init)();
  int (*device_by_bus_id)(const char* bus_id, NvmlDevice* device);
  int (*link_state)(NvmlDevice device, unsigned link, unsigned* is_active);
  int (*link_remote)(NvmlDevice device, unsigned link, NvmlPciInfo* info);

  static std::optional<Nvml> load() {
    const RuntimeLibrary library("libnvidia-ml.so.1");
    Nvml nvml{};
    const bool is_complete = library.find("nvmlInit_v2", nvml.init) &&
                             library.find("nvmlDeviceGetHandleByPciBusId_v2", nvml.device_by_bus_id) &&
                             library.find("nvmlDeviceGetNvLinkState", nvml.link_state) &&
                             library.find("nvmlDeviceGetNvLinkRemotePciInfo_v2", nvml.link_remote);
    if (!is_complete || nvml.init() != 0) return std::nullopt;
    return nvml;
  }
};

void read_nvlinks(const Nvml& nvml, DriverGpu& gpu) {
  NvmlDevice device = nullptr;
  if (nvml.device_by_bus_id(format(gpu.bus_id).c_str(), &device) != 0) return;
  for (unsigned link = 0; link < kMostNvlinks; ++link) {
    unsigned is_active = 0;
    NvmlPciInfo info{};
    if (nvml.link_state(device, link, &is_active) != 0 || is_active == 0) continue;
    if (nvml.link_remote(device, link, &info) != 0) continue;
    info.bus_id[sizeof(info.bus_id) - 1] = '\0';
    const auto remote = parse_bus_id(info.bus_id);
    if (!remote) continue;
    const auto known =
        std::find_if(gpu.nvlinks.begin(), gpu.nvlinks.end(), [&](const NvlinkEnd& end) { return end.remote == *remote; });
    if (known == gpu.nvlinks.end()) {
      gpu.nvlinks.push_back({*remote, 1});
    } else {
      ++known->count;
    }
  }
}

NodeId node_at(const TopologyGraph& graph, const BusId& bus_id) {
  const auto found =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const TopologyNode& node) { return node.bus_id == bus_id; });
  return found == graph.nodes.end() ? kNoNode : static_cast<NodeId>(found - graph.nodes.begin());
}

void add_nvlinks(TopologyGraph& graph, NodeId id, const DriverGpu& gpu) {
  for (const NvlinkEnd& end : gpu.nvlinks) {
    NodeId other = node_at(graph, end.remote);
    if (other == kNoNode) other = add_node(graph, {.kind = NodeKind::kNvSwitch, .parent = 0, .bus_id = end.remote});
    // Links between GPUs are seen from both ends.
    if (graph.nodes[other].kind == NodeKind::kGpu && other < id) continue;
    graph.links.push_back({.kind = LinkKind::kNvlink,
                           .a = std::min(id, other),
                           .b = std::max(id, other),
                           .count = end.count,
                           .bandwidth_gbps = end.count * nvlink_bandwidth_gbps(gpu.compute_capability),
                           .latency_us = kNvlinkLatencyUs});
  }
}

}  // namespace

std::vector<DriverGpu> find_driver_gpus() {
  std::vector<DriverGpu> gpus;
  const auto cuda = CudaDriver::load();
  int count = 0;
  if (!cuda || cuda->device_count(&count) != 0) return gpus;
  for (int device = 0; device < count; ++device) {
    char text[256] = {};
    DriverGpu gpu;
    if (cuda->bus_id(text, sizeof(text), device) == 0) gpu.bus_id = parse_bus_id(text).value_or(BusId{});
    if (cuda->device_name(text, sizeof(text), device) == 0) gpu.name = text;
    int major = 0;
    int minor = 0;
    cuda->attribute(&major, kCapabilityMajor, device);
    cuda->attribute(&minor, kCapabilityMinor, device);
    gpu.compute_capability = 10 * major + minor;
    gpus.push_back(std::move(gpu));
  }
  for (int device = 0; device < count; ++device) {
    for (int peer = 0; peer < count; ++peer) {
      int can_access = 0;
      if (peer == device || cuda->can_access_peer(&can_access, device, peer) != 0 || can_access == 0) continue;
      gpus[device].peers.push_back(gpus[peer].bus_id);
    }
  }
  if (const auto nvml = Nvml::load()) {
    for (DriverGpu& gpu : gpus) read_nvlinks(*nvml, gpu);
  }
  return gpus;
}

void add_driver_facts(TopologyGraph& graph, const std::vector<DriverGpu>& gpus) {
  const bool has_nvlinks = std::any_of(graph.links.begin(), graph.links.end(),
                                       [](const TopologyLink& link) { return link.kind == LinkKind::kNvlink; });
  for (const DriverGpu& gpu : gpus) {
    const NodeId id = node_at(graph, gpu.bus_id);
    if (id == kNoNode || graph.nodes[id].kind != NodeKind::kGpu) continue;
    if (!gpu.name.empty()) graph.nodes[id].model = printable(gpu.name);
    for (const BusId& peer : gpu.peers) {
      if (const NodeId other = node_at(graph, peer); other != kNoNode)
        graph.nodes[id].peer_gpus.push_back(graph.nodes[other].index);
    }
    if (!has_nvlinks) add_nvlinks(graph, id, gpu);
  }
  number_devices(graph);
}

}  // namespace gimbal
