// What the kernel says of devices beyond hwloc: PCI links as trained and as they could be, network interfaces, InfiniBand
// ports.
#pragma once

#include <string>

#include "topology/graph.h"

namespace gimbal {

// The first line of a file; empty when it cannot be read.
std::string read_sysfs_line(const std::string& path);

// Adds to the devices of the graph what stands under `root` ("/sys"). What is missing there stays unknown.
void add_sysfs_facts(TopologyGraph& graph, const std::string& root);

}  // namespace gimbal
