// Makes a graph of a machine that hwloc has loaded: this one, or one from an XML file. Only files of topology/ include this.
#pragma once

#include <hwloc.h>

#include <memory>

#include "topology/graph.h"

namespace gimbal {

struct HwlocDestroyer {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, HwlocDestroyer>;

// Loads this machine, or the XML in `xml` when it is not null. Neither changes this thread's binding.
Result<HwlocTopology> load_hwloc(const std::string* xml);

TopologyGraph graph_from_hwloc(hwloc_topology_t topology);

// Loads hwloc's XML of version 1 or 2 in this process. hwloc 2.9 dies of some files: load_topology_file (load.h) lets a child
// do it.
Result<TopologyGraph> graph_from_hwloc_xml(const std::string& xml);

}  // namespace gimbal
