#include "topology/hwloc_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "topology/hwloc_devices.h"
#include "topology/link_speeds.h"

namespace gimbal {
namespace {

class GraphBuilder {
 public:
  explicit GraphBuilder(hwloc_topology_t topology)
      : topology_(topology), allowed_(hwloc_topology_get_allowed_cpuset(topology)) {}

  TopologyGraph build() {
    hwloc_obj_t root = hwloc_get_root_obj(topology_);
    const NodeId machine = add_node(graph_, {});
    graph_.nodes[machine].name = text(root, "HostName");
    graph_.nodes[machine].model = text(root, "DMIProductName");
    read(root, machine);
    read_cpu_kinds();
    connect_numa_nodes();
    read_hwloc_direct_links(topology_, nodes_, graph_);
    number_devices(graph_);
    return std::move(graph_);
  }

 private:
  static std::string text(hwloc_obj_t object, const char* name) {
    const char* value = hwloc_obj_get_info_by_name(object, name);
    return value == nullptr ? "" : printable(value);
  }

  // The object's contents as children of `node`.
  void read(hwloc_obj_t object, NodeId node) {
    for (hwloc_obj_t child = object->memory_first_child; child != nullptr; child = child->next_sibling)
      read_memory(child, node);
    for (hwloc_obj_t child = object->first_child; child != nullptr; child = child->next_sibling) read(child, add(child, node));
    if (object->io_first_child != nullptr) read_hwloc_devices(object, node, near(object), graph_, nodes_);
  }

  // A NUMA node, maybe behind a memory-side cache.
  void read_memory(hwloc_obj_t object, NodeId parent) {
    if (object->type == HWLOC_OBJ_NUMANODE) {
      const auto id = static_cast<int32_t>(object->os_index);
      nodes_[object] = add_node(graph_, {.kind = NodeKind::kNuma,
                                         .parent = parent,
                                         .os_index = id,
                                         .bytes = object->attr->numanode.local_memory,
                                         .numa = {id}});
    }
    for (hwloc_obj_t child = object->memory_first_child; child != nullptr; child = child->next_sibling) {
      read_memory(child, parent);
    }
    if (object->io_first_child != nullptr) read_hwloc_devices(object, parent, near(object), graph_, nodes_);
  }

  // The node of a normal object; the parent for what the graph leaves out (groups, dies, instruction caches).
  NodeId add(hwloc_obj_t object, NodeId parent) {
    TopologyNode node{.parent = parent, .os_index = static_cast<int32_t>(object->os_index), .numa = near(object)};
    if (object->type == HWLOC_OBJ_PACKAGE) {
      node.kind = NodeKind::kPackage;
      node.model = text(object, "CPUModel");
    } else if (object->type == HWLOC_OBJ_CORE) {
      node.kind = NodeKind::kCore;
    } else if (object->type == HWLOC_OBJ_PU) {
      node.kind = NodeKind::kPu;
      node.allowed = hwloc_bitmap_isset(allowed_, object->os_index) != 0;
    } else if (hwloc_obj_type_is_dcache(object->type) != 0) {
      node.kind = NodeKind::kCache;
      node.os_index = -1;
      node.name = "L" + std::to_string(object->attr->cache.depth);
      node.bytes = object->attr->cache.size;
    } else {
      return parent;
    }
    const NodeId id = add_node(graph_, std::move(node));
    nodes_[object] = id;
    return id;
  }

  // The NUMA nodes around an object: those inside it, or the narrowest that hold it (memory of the whole machine, as CXL's, is
  // near to nobody in particular). The whole of a machine with several places for memory is no place: unknown.
  std::vector<int32_t> near(hwloc_obj_t object) {
    while (object->parent != nullptr && object->nodeset == nullptr) object = object->parent;
    if (object->parent == nullptr && has_several_places()) return {};
    std::vector<int32_t> result;
    int narrowest = INT32_MAX;
    for (hwloc_obj_t numa = hwloc_get_obj_by_type(topology_, HWLOC_OBJ_NUMANODE, 0); numa != nullptr;
         numa = numa->next_cousin) {
      if (hwloc_bitmap_isset(object->nodeset, numa->os_index) == 0) continue;
      const bool is_inside = hwloc_bitmap_isincluded(numa->cpuset, object->cpuset) != 0;
      const int width = is_inside ? 0 : hwloc_bitmap_weight(numa->cpuset);
      if (width < narrowest) result.clear();
      if (width <= narrowest) result.push_back(static_cast<int32_t>(numa->os_index));
      narrowest = std::min(narrowest, width);
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  // Memory at several places of the tree; several kinds at one place (HBM beside DRAM) are one.
  bool has_several_places() {
    hwloc_obj_t first = hwloc_get_obj_by_type(topology_, HWLOC_OBJ_NUMANODE, 0);
    for (hwloc_obj_t numa = first; numa != nullptr; numa = numa->next_cousin) {
      if (hwloc_bitmap_isequal(numa->cpuset, first->cpuset) == 0) return true;
    }
    return false;
  }

  void read_cpu_kinds() {
    const int count = hwloc_cpukinds_get_nr(topology_, 0);
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (int kind = 0; kind < count; ++kind) {
      int efficiency = -1;
      unsigned info_count = 0;
      hwloc_info_s* infos = nullptr;
      if (hwloc_cpukinds_get_info(topology_, static_cast<unsigned>(kind), set, &efficiency, &info_count, &infos, 0) != 0) break;
      CpuKind result{.efficiency = efficiency};
      for (unsigned i = 0; i < info_count; ++i) {
        const std::string_view name = infos[i].name;
        if (name == "CoreType") result.name = printable(infos[i].value);
        if (name == "FrequencyMaxMHz")
          result.max_mhz = static_cast<int32_t>(std::strtol(infos[i].value, nullptr, 10) & INT32_MAX);
      }
      const auto index = static_cast<int32_t>(graph_.cpu_kinds.size());
      graph_.cpu_kinds.push_back(std::move(result));
      for (TopologyNode& node : graph_.nodes) {
        if (node.kind == NodeKind::kPu && hwloc_bitmap_isset(set, static_cast<unsigned>(node.os_index)) != 0)
          node.cpu_kind = index;
      }
    }
    hwloc_bitmap_free(set);
  }

  void connect_numa_nodes() {
    const std::vector<NodeId> all = nodes_of_kind(graph_, NodeKind::kNuma);
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t j = i + 1; j < all.size(); ++j) {
        TopologyLink link{.kind = LinkKind::kInterconnect, .a = all[i], .b = all[j], .latency_us = kInterconnectLatencyUs};
        const NodeId package = ancestor_of_kind(graph_, all[i], NodeKind::kPackage);
        // Within a package (clusters, HBM beside DRAM) nothing is known of the way between.
        if (package != ancestor_of_kind(graph_, all[j], NodeKind::kPackage)) {
          link.bandwidth_gbps = interconnect_bandwidth_gbps(package == kNoNode ? "" : graph_.nodes[package].model);
        }
        graph_.links.push_back(link);
      }
    }
    read_numa_distances();
  }

  void read_numa_distances() {
    hwloc_distances_s* matrix = nullptr;
    unsigned count = 1;
    if (hwloc_distances_get_by_name(topology_, "NUMALatency", &count, &matrix, 0) != 0 || count == 0) return;
    for (unsigned i = 0; i < matrix->nbobjs; ++i) {
      for (unsigned j = 0; j < matrix->nbobjs; ++j) {
        const auto a = nodes_.find(matrix->objs[i]);
        const auto b = nodes_.find(matrix->objs[j]);
        if (a == nodes_.end() || b == nodes_.end()) continue;
        for (TopologyLink& link : graph_.links) {
          if (link.kind != LinkKind::kInterconnect || link.a != a->second || link.b != b->second) continue;
          link.distance = static_cast<int32_t>(std::min<uint64_t>(matrix->values[i * matrix->nbobjs + j], INT32_MAX));
        }
      }
    }
    hwloc_distances_release(topology_, matrix);
  }

  hwloc_topology_t topology_;
  hwloc_const_bitmap_t allowed_;
  TopologyGraph graph_;
  HwlocNodes nodes_;
};

}  // namespace

Result<HwlocTopology> load_hwloc(const std::string* xml) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return system_error("hwloc_topology_init", errno);
  HwlocTopology topology(raw);
  const unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
  const bool is_set =
      hwloc_topology_set_flags(raw, flags) == 0 && hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL) == 0;
  if (!is_set) return system_error("hwloc_topology_set_flags", errno);
  // The length includes the terminating null.
  if (xml != nullptr && hwloc_topology_set_xmlbuffer(raw, xml->c_str(), static_cast<int>(xml->size() + 1)) != 0) {
    return Status(Code::kInvalidArgument, "hwloc cannot read it as XML");
  }
  if (hwloc_topology_load(raw) != 0) {
    if (xml != nullptr)
      return Status(Code::kInvalidArgument, "hwloc cannot load it: its objects are incomplete or contradict each other");
    return system_error("hwloc_topology_load", errno);
  }
  return topology;
}

TopologyGraph graph_from_hwloc(hwloc_topology_t topology) { return GraphBuilder(topology).build(); }

Result<TopologyGraph> graph_from_hwloc_xml(const std::string& xml) {
  ASSIGN_OR_RETURN(const HwlocTopology topology, load_hwloc(&xml));
  TopologyGraph graph = graph_from_hwloc(topology.get());
  RETURN_IF_ERROR(check_graph(graph));
  return graph;
}

}  // namespace gimbal
