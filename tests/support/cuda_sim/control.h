// What machine the simulated CUDA runtime shows: by a call before the process first uses it, or by environment variables.
//
//   CUDA_SIM_DEVICES=2           how many devices (CUDA_VISIBLE_DEVICES is obeyed too)
//   CUDA_SIM_MULTIPROCESSORS=8   of each
//   CUDA_SIM_BLOCKS=4            of any kernel that one multiprocessor holds
//   CUDA_SIM_MEMORY=1073741824   bytes of each device
//   CUDA_SIM_FAULT=<name>        no_driver, old_driver, no_device, peer_refused, ipc_refused
//   CUDA_SIM_SEED=1              another order of threads, blocks and streams for every seed but 0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_sim {

enum class Fault : uint8_t { kNone, kNoDriver, kOldDriver, kNoDevice, kPeerRefused, kIpcRefused };

struct Settings {
  int devices = 1;
  int multiprocessors = 8;
  int blocks_per_multiprocessor = 4;
  size_t memory_bytes = size_t{1} << 30;
  Fault fault = Fault::kNone;
  uint64_t seed = 0;
};

// Of this process, from now on; memory and streams that exist keep their device.
__attribute__((visibility("default"))) void configure(const Settings& settings);

// Bytes that cudaMalloc has given out on all devices and cudaFree has not got back.
__attribute__((visibility("default"))) size_t allocated_bytes();

}  // namespace cuda_sim
