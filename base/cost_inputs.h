// What the simulator and the cost model calculate with: machines of one kind and the network between them, as plain numbers.
//
// topology/cost_inputs.h derives them from a graph, `gimbal-topo tune` measures those of this machine. They say what a part can
// do by itself; what a whole algorithm makes of it is the simulator's business, and what remains is a factor that tune has
// measured.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/link_cost.h"
#include "base/types.h"

namespace gimbal {

// How near two ranks are to each other, nearest first.
enum class LinkClass : uint8_t {
  kCache,    // shared memory, CPUs under one last-level cache
  kNuma,     // shared memory, one NUMA node
  kSocket,   // shared memory, two NUMA nodes
  kNvlink,   // GPUs, directly or over NVSwitches
  kPci,      // GPUs, over PCI Express
  kNetwork,  // two machines; its cost is that of one rail
};
inline constexpr size_t kLinkClassCount = 6;

inline constexpr std::array<std::string_view, kLinkClassCount> kLinkClassNames = {"cache",  "numa", "socket",
                                                                                  "nvlink", "pci",  "network"};
constexpr std::string_view link_class_name(LinkClass link_class) { return kLinkClassNames[static_cast<size_t>(link_class)]; }

// What one CPU (or GPU) does with bytes that it moves itself. GB/s: bytes of the source that a copy reads and writes once more;
// bytes of one operand that a reduction reads and adds.
struct MemoryCost {
  double copy_gbps = 10;
  double cached_copy_gbps = 40;  // source and destination in the last-level cache
  double reduce_gbps = 20;
  double cached_reduce_gbps = 80;
  double total_gbps = 0;  // copies of all CPUs of a machine together; 0: no bound below their sum
};

struct CostInputs {
  // One message between two ranks. A lane through shared memory costs its sender a copy in and its receiver a copy or a
  // reduction out, which are MemoryCost's; the link's bandwidth is that of the way between the two CPUs.
  std::array<LinkCost, kLinkClassCount> links = {};
  MemoryCost memory = {};
  uint64_t cache_bytes = uint64_t{8} << 20;  // of a machine's last-level cache; what fits is cached
  // Ranks of one machine share this many CPUs (affinity and quota). With more ranks than CPUs a rank that waits hands its CPU
  // over, and the CPUs' work is shared. GPUs: as many as ranks.
  double cpus = 1;
  double handover_us = 1;
  int32_t rails = 1;  // NICs of a machine, each of which carries LinkClass::kNetwork

  // Where the ranks of a machine are: rank r is local rank r % ranks_per_node of machine r / ranks_per_node, at place
  // place_of[local rank]; two ranks of one machine are link_of[place * places + place] from each other.
  Rank ranks_per_node = 1;
  std::vector<int32_t> place_of = {0};
  size_t places = 1;
  std::vector<LinkClass> link_of = {LinkClass::kCache};
};

inline int32_t node_of(const CostInputs& inputs, Rank rank) { return rank / inputs.ranks_per_node; }
inline size_t local_rank(const CostInputs& inputs, Rank rank) { return static_cast<size_t>(rank % inputs.ranks_per_node); }
// The NIC that a rank's messages to other machines leave by, as rails are dealt out to local ranks.
inline int32_t rail_of(const CostInputs& inputs, Rank rank) {
  return static_cast<int32_t>(local_rank(inputs, rank)) % std::max(1, inputs.rails);
}

inline LinkClass link_class(const CostInputs& inputs, Rank from, Rank to) {
  if (node_of(inputs, from) != node_of(inputs, to)) return LinkClass::kNetwork;
  const auto a = static_cast<size_t>(inputs.place_of[local_rank(inputs, from)]);
  const auto b = static_cast<size_t>(inputs.place_of[local_rank(inputs, to)]);
  return inputs.link_of[a * inputs.places + b];
}

inline const LinkCost& link_cost(const CostInputs& inputs, Rank from, Rank to) {
  return inputs.links[static_cast<size_t>(link_class(inputs, from, to))];
}

}  // namespace gimbal
