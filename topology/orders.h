// In which order devices pass data on, and which NIC each uses: what channels are laid along.
#pragma once

#include <vector>

#include "topology/paths.h"

namespace gimbal {

// One rail per NIC: the GPUs that send through it. With several equally near NICs a GPU goes to the one with the fewest so far.
struct Rail {
  NodeId nic = kNoNode;
  std::vector<NodeId> gpus;
};

// By the NICs' index. A machine without GPUs has rails with none.
std::vector<Rail> rails_of(const TopologyGraph& graph, const PathFinder& paths);

// The order of one channel: its ring, which is also its tree's chain, root first. It begins at a GPU of the channel's rail.
struct ChannelOrder {
  NodeId nic = kNoNode;  // kNoNode on a machine without NICs
  std::vector<NodeId> devices;
};

// One order per rail, at most 64, one in all without NICs, over the GPUs, or over the NUMA nodes with CPUs on a machine without
// GPUs. The narrowest link of a ring is as wide as the search finds (all rings of up to 8 devices, nearest neighbours beyond).
// Where GPUs have direct links each ring prefers those that earlier ones left; elsewhere every pair shares its switches, and
// all channels go around the same ring, each from its own rail's GPU.
std::vector<ChannelOrder> channel_orders(const TopologyGraph& graph, const PathFinder& paths);

// The devices as groups whose members reach each other by this class or a better one, directly or over other members; groups
// and members in the order given.
std::vector<std::vector<NodeId>> group_devices(const PathFinder& paths, const std::vector<NodeId>& devices, PathClass at_most);

}  // namespace gimbal
