// What only the GPU driver knows: models, peer access (CUDA), NVLinks and where they lead (NVML). Both libraries are looked for
// at run time; without them nothing is added.
#pragma once

#include <string>
#include <vector>

#include "topology/graph.h"

namespace gimbal {

struct NvlinkEnd {
  BusId remote;
  int count = 0;
};

struct DriverGpu {
  BusId bus_id;
  std::string name;
  int compute_capability = 0;      // 90 for 9.0
  std::vector<BusId> peers;        // whose memory it may map
  std::vector<NvlinkEnd> nvlinks;  // active ones, by the device at the other end
};

std::vector<DriverGpu> find_driver_gpus();

// Adds the facts to the GPUs of the same bus ids. NVLinks only where hwloc has given none; an end that is no GPU is an
// NVSwitch.
void add_driver_facts(TopologyGraph& graph, const std::vector<DriverGpu>& gpus);

}  // namespace gimbal
