// A number that tells machines of different kinds apart: what a tune run has measured holds for machines with the same one.
#pragma once

#include <cstdint>
#include <string>

#include "topology/graph.h"

namespace gimbal {

// Of the machine that this process runs on, from a few short files under `root` ("" is this machine's /): CPU model, CPUs,
// caches, NUMA nodes and their distances, network and display devices on PCI. Needs no discovery and takes below a millisecond;
// what this process may use of the machine is not in it.
uint64_t machine_fingerprint(const std::string& root);

// Of a machine that a file tells of.
uint64_t graph_fingerprint(const TopologyGraph& graph);

}  // namespace gimbal
